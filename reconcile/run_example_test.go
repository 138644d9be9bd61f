package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

func exampleMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// greeter says hello to ConfigMaps, and stops the program.
func greeter(stop func()) reconcile.Func[*corev1.ConfigMap] {
	return func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		fmt.Println("hello", r.Key)
		stop()
		return reconcile.Result{}, nil
	}
}

func ExampleRun() {
	client := fake.NewClientset(exampleMap("site"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := reconcile.Run(ctx, "greeter", informer.For(client.CoreV1().ConfigMaps(""), nil), greeter(stop))
	fmt.Println(err) // after everything that it started has ended
	// Output:
	// hello shop/site
	// <nil>
}

// Every option that is wrong is named, and nothing has been started.
func ExampleNew() {
	in := informer.For(fake.NewClientset().CoreV1().ConfigMaps(""), nil)
	_, err := reconcile.New("greeter", in, greeter(func() {}), &reconcile.Options{
		Workers: -1,
		Grace:   -time.Second,
	})
	fmt.Println(err)
	// Output:
	// making controller "greeter": reconcile.Options.Workers is -1: must be more than 0
	// reconcile.Options.Grace is -1s: must be more than 0
}

// An informer that two controllers share is started once.
func ExampleRunAll() {
	client := fake.NewClientset(exampleMap("site"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	in := informer.For(client.CoreV1().ConfigMaps(""), nil)
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		both.Wait()
		stop()
	}()
	first, err := reconcile.New("first", in, greeter(sync.OnceFunc(both.Done)), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	looked := sync.OnceFunc(both.Done)
	second, err := reconcile.New("second", in, reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			looked()
			return reconcile.Result{}, nil
		}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reconcile.RunAll(ctx, first, second))
	// Output:
	// hello shop/site
	// <nil>
}

// A key without a watch is reconciled again later. That is a success, and does
// not change the back-off of failures.
func ExampleAfter() {
	client := fake.NewClientset(exampleMap("certificate"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	looks := 0
	expires := reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			if looks++; looks == 3 {
				stop()
			}
			return reconcile.After(10 * time.Millisecond), nil
		})
	err := reconcile.Run(ctx, "expiry", informer.For(client.CoreV1().ConfigMaps(""), nil), expires)
	fmt.Println("looked", looks, "times,", err)
	// Output: looked 3 times, <nil>
}

// A retry cannot fix a spec that contradicts itself, so the key waits for an
// edit.
func ExampleTerminal() {
	client := fake.NewClientset(exampleMap("site"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	tries := 0
	strict := reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			tries++
			time.AfterFunc(300*time.Millisecond, stop) // an error that is not terminal would be tried again by then
			return reconcile.Result{}, reconcile.Terminal(errors.New("minReplicas is more than maxReplicas"))
		})
	err := reconcile.Run(logr.NewContext(ctx, logr.Discard()), "strict", informer.For(client.CoreV1().ConfigMaps(""), nil), strict)
	fmt.Println("tried", tries, "times,", err)
	// Output: tried 1 times, <nil>
}

// A client without a transport, such as a fake, does not report what it writes.
// The key is held until the cache shows the Secret, so that it is made once.
func ExampleWrote() {
	client := fake.NewClientset(exampleMap("site"))
	if err := fakes.Faithful(client); err != nil { // objects get UIDs and resourceVersions
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	secrets := informer.For(client.CoreV1().Secrets(""), nil)
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		if _, ok := secrets.Get(r.Key); ok {
			fmt.Println("it is there")
			stop()
			return reconcile.Result{}, nil
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Key.Namespace, Name: r.Key.Name}}
		made, err := client.CoreV1().Secrets(r.Key.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		if err != nil {
			return reconcile.Result{}, err
		}
		fmt.Println("made it")
		reconcile.Wrote(ctx, made)
		return reconcile.After(0), nil
	}
	fmt.Println(runWith(ctx, client, secrets, one))
	// Output:
	// made it
	// it is there
	// <nil>
}

// The same for a delete.
func ExampleDeleted() {
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "site"}}
	client := fake.NewClientset(exampleMap("site"), old)
	if err := fakes.Faithful(client); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	secrets := informer.For(client.CoreV1().Secrets(""), nil)
	one := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		secret, ok := secrets.Get(r.Key)
		if !ok {
			fmt.Println("it is deleted")
			stop()
			return reconcile.Result{}, nil
		}
		err := client.CoreV1().Secrets(r.Key.Namespace).Delete(ctx, r.Key.Name, metav1.DeleteOptions{})
		if err != nil {
			return reconcile.Result{}, err // a second delete would end here
		}
		reconcile.Deleted(ctx, secret)
		return reconcile.After(0), nil
	}
	fmt.Println(runWith(ctx, client, secrets, one))
	// Output:
	// it is deleted
	// <nil>
}

// runWith runs a controller of ConfigMaps that also watches Secrets.
func runWith(
	ctx context.Context, client *fake.Clientset, secrets *informer.Informer[*corev1.Secret],
	one reconcile.Func[*corev1.ConfigMap],
) error {
	same := func(_ context.Context, before, after *corev1.Secret) ([]reconcile.Key, error) {
		if after == nil {
			after = before
		}
		return []reconcile.Key{{Namespace: after.Namespace, Name: after.Name}}, nil
	}
	c, err := reconcile.New("secrets", informer.For(client.CoreV1().ConfigMaps(""), nil), one,
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(secrets, same)}})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// The methods for a program's own probes and pages. Here the program has ended.
func ExampleController_Stats() {
	client := fake.NewClientset(exampleMap("site"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := reconcile.New("greeter", informer.For(client.CoreV1().ConfigMaps(""), nil), greeter(stop), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Name(), "is", c.Phase())
	fmt.Println(c.Run(ctx))
	fmt.Println(c.Name(), "is", c.Phase())
	fmt.Println("reconciles:", c.Stats().Reconciles[inspect.Succeeded], "additions:", c.QueueStats().Added)
	fmt.Println("caches:", c.Informers()[0].Kind)
	fmt.Println("livez:", c.Healthy(), "readyz:", errors.Join(c.LeaderReady(), c.Refused()))
	// Output:
	// greeter is created
	// hello shop/site
	// <nil>
	// greeter is stopped
	// reconciles: 1 additions: 1
	// caches: ConfigMap
	// livez: <nil> readyz: <nil>
}

// A command line asks for one key, which need not have an object. The history
// has the outcome.
func ExampleController_Enqueue() {
	client := fake.NewClientset()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := reconcile.New("greeter", informer.For(client.CoreV1().ConfigMaps(""), nil), greeter(stop), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	key := reconcile.Key{Namespace: "shop", Name: "site"}
	c.Enqueue(key)
	fmt.Println(c.Run(ctx))
	for _, attempt := range c.History(key) {
		fmt.Println("attempt", attempt.Number, attempt.Outcome)
	}
	// Output:
	// hello shop/site
	// <nil>
	// attempt 1 success
}

// Whether the deletions of the time before the start are found.
func ExampleController_Sweep() {
	zone := names.Func(func(context.Context) ([]names.Name, error) {
		return []names.Name{{Key: reconcile.Key{Namespace: "shop", Name: "deleted-while-we-were-down"}}}, nil
	})
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := reconcile.New("greeter", informer.For(fake.NewClientset().CoreV1().ConfigMaps(""), nil), greeter(stop),
		&reconcile.Options{Known: zone})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Sweep().Ready())
	fmt.Println(c.Run(ctx))
	fmt.Println(c.Sweep().Stats().Orphans, "orphan")
	// Output:
	// the first sweep for orphans has not ended yet
	// hello shop/deleted-while-we-were-down
	// <nil>
	// 1 orphan
}
