package reconcile_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"github.com/homeostat/homeostat/reconcile"
)

// fleet is replicas that share the ConfigMaps of one API server by ranges.
type fleet struct {
	*WithT

	t     *testing.T
	sim   *apisim.Server
	admin *kubernetes.Clientset

	ledger *ledger

	mu      sync.Mutex               // guards the fields below
	seen    map[reconcile.Key]string // the value that was reconciled last
	secrets map[reconcile.Key]bool   // whose Secret was cached then
	takes   func(reconcile.Key) time.Duration
	options func(*member) *reconcile.Options

	reconciledBy map[reconcile.Key][]string
	members      map[string]*member
}

type member struct {
	configMaps *informer.Informer[*configMap]
	secrets    *informer.Informer[*corev1.Secret]
	whole      *informer.Informer[*corev1.ServiceAccount]
	stop       func()
}

func inFleet(t *testing.T, o *apisim.Options, f func(*fleet)) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(o)
		g.Expect(err).NotTo(HaveOccurred())
		x := &fleet{
			WithT: g, t: t, sim: sim, admin: kubernetes.NewForConfigOrDie(sim.Admin()),
			ledger: newLedger(), seen: map[reconcile.Key]string{}, secrets: map[reconcile.Key]bool{},
			members: map[string]*member{}, takes: quick, options: mapped, reconciledBy: map[reconcile.Key][]string{},
		}
		f(x)
		for _, m := range x.members {
			m.stop()
		}
		x.Expect(x.ledger.faults).To(BeEmpty())
	})
}

// join starts a replica.
func (x *fleet) join(name string) { x.joinWith(name, x.sim.Config(name)) }

// joinWith starts a replica that lists Secrets with a configuration of its own.
func (x *fleet) joinWith(name string, secrets *rest.Config) *reconcile.Controller {
	config := x.sim.Config(name)
	config.Wrap(x.ledger.noting(name))
	clientset := kubernetes.NewForConfigOrDie(config)
	shards, err := ranges.New(leader.Lease{
		Client: clientset.CoordinationV1(), Namespace: "default", Name: "fleet", Identity: name,
	}, &shard.Options{Slots: 16})
	x.Expect(err).NotTo(HaveOccurred())
	m := &member{
		configMaps: informer.For(clientset.CoreV1().ConfigMaps(""), nil),
		secrets:    informer.For(kubernetes.NewForConfigOrDie(secrets).CoreV1().Secrets(""), nil),
		whole:      informer.For(clientset.CoreV1().ServiceAccounts(""), &informer.Options{Whole: true}),
	}
	m.configMaps.Handle(x.ledger.hears(name))
	o := x.options(m)
	o.Shards = shards
	c, err := reconcile.New("fleet", m.configMaps, reconcile.Func[*configMap](
		func(_ context.Context, r request) (reconcile.Result, error) {
			x.reconcile(name, m, r)
			return nothing, nil
		}), o)
	x.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(x.t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	m.stop = func() {
		cancel()
		x.Expect(<-done).To(Succeed())
		x.Expect(c.Leftovers()).To(BeEmpty(), name)
		x.Expect(c.Stats().Panics).To(BeZero(), name)
	}
	x.members[name] = m
	return c
}

func quick(reconcile.Key) time.Duration { return 20 * time.Millisecond }

// mapped are options by which a ConfigMap is reconciled for the Secret of its
// name.
func mapped(m *member) *reconcile.Options {
	return &reconcile.Options{Triggers: []reconcile.Trigger{
		reconcile.Mapped(m.secrets, func(_ context.Context, old, now *corev1.Secret) ([]reconcile.Key, error) {
			if now == nil {
				now = old
			}
			return []reconcile.Key{{Namespace: now.Namespace, Name: now.Name}}, nil
		}),
		reconcile.Mapped(m.whole, func(context.Context, *corev1.ServiceAccount, *corev1.ServiceAccount) ([]reconcile.Key, error) {
			return nil, nil
		}),
	}}
}

// kill ends a replica: no further request of it arrives.
func (x *fleet) kill(name string) {
	x.sim.Fence(name)
	x.ledger.killed(name)
	x.members[name].stop()
	delete(x.members, name)
}

func (x *fleet) reconcile(name string, m *member, r request) {
	x.ledger.begin(r.Key, name)
	defer x.ledger.end(r.Key)
	x.mu.Lock()
	takes := x.takes
	x.mu.Unlock()
	<-time.After(takes(r.Key)) // whatever its context says
	object, ok := r.Object()
	_, secret := m.secrets.Get(r.Key)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen[r.Key] = "deleted"; ok {
		x.seen[r.Key] = object.Data["n"]
		if n, err := strconv.Atoi(object.Data["n"]); err == nil {
			x.ledger.saw(r.Key, name, n)
		}
	}
	x.secrets[r.Key] = secret
	x.reconciledBy[r.Key] = append(x.reconciledBy[r.Key], name)
}

// namespace returns one of many whose hashes lie close together.
func namespace(n int) string { return fmt.Sprintf("team-%02d", n) }

func (x *fleet) create(namespaces int) {
	for n := range namespaces {
		meta := metav1.ObjectMeta{Namespace: namespace(n), Name: "a"}
		_, err := x.admin.CoreV1().ConfigMaps(meta.Namespace).Create(x.t.Context(),
			&configMap{ObjectMeta: meta, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{})
		x.Expect(err).NotTo(HaveOccurred())
		_, err = x.admin.CoreV1().Secrets(meta.Namespace).Create(x.t.Context(),
			&corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
		x.Expect(err).NotTo(HaveOccurred())
		_, err = x.admin.CoreV1().ServiceAccounts(meta.Namespace).Create(x.t.Context(),
			&corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
		x.Expect(err).NotTo(HaveOccurred())
	}
}

// set gives a ConfigMap a value.
func (x *fleet) set(of int, value string) {
	n, err := strconv.Atoi(value)
	x.Expect(err).NotTo(HaveOccurred())
	x.ledger.writing(reconcile.Key{Namespace: namespace(of), Name: "a"}, n)
	_, err = x.admin.CoreV1().ConfigMaps(namespace(of)).Update(x.t.Context(), &configMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace(of), Name: "a"}, Data: map[string]string{"n": value},
	}, metav1.UpdateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
}

// comeAndGo creates a further ConfigMap, or deletes it if it exists.
func (x *fleet) comeAndGo(of int) {
	if of%3 != 0 { // seldom: most changes are updates
		return
	}
	maps := x.admin.CoreV1().ConfigMaps(namespace(of / 3))
	_, err := maps.Create(x.t.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = maps.Delete(x.t.Context(), "b", metav1.DeleteOptions{})
	}
	x.Expect(err).NotTo(HaveOccurred())
}

// cached returns how many ConfigMaps each replica has, after it has compared
// them with the Secrets, and the ServiceAccounts, of which each has all.
func (x *fleet) cached(all int) []int {
	x.t.Helper()
	have := map[reconcile.Key]int{}
	var counts []int
	for name, m := range x.members {
		var configMaps, secrets []string
		for object := range m.configMaps.Snapshot().All() {
			if object.Name != "a" {
				continue
			}
			configMaps = append(configMaps, object.Namespace)
			have[reconcile.Key{Namespace: object.Namespace, Name: object.Name}]++
		}
		for object := range m.secrets.Snapshot().All() {
			secrets = append(secrets, object.Namespace)
		}
		x.Expect(secrets).To(Equal(configMaps), name)
		x.Expect(m.whole.Snapshot().Len()).To(Equal(all), name)
		counts = append(counts, len(configMaps))
	}
	x.Expect(have).To(HaveLen(all), "every object is cached")
	for key, replicas := range have {
		x.Expect(replicas).To(Equal(1), "%v is cached by one replica", key)
	}
	return counts
}

// Namespaces are divided even if they have similar names; a replica joins and
// one is killed while objects change.
func TestEachReplicaCachesItsShardsOnly(t *testing.T) {
	for _, selects := range []bool{true, false} {
		t.Run(fmt.Sprint("server=", selects), func(t *testing.T) {
			inFleet(t, &apisim.Options{Shards: selects}, func(x *fleet) { eachCachesItsShards(x) })
		})
	}
}

func eachCachesItsShards(x *fleet) {
	const all = 32
	x.create(all)
	for _, name := range []string{"a", "b", "c"} {
		x.join(name)
	}
	pass(2 * time.Minute)
	for _, count := range x.cached(all) {
		x.Expect(count).To(BeNumerically("<=", 13), "a fifth more than a third")
	}
	x.mu.Lock()
	x.takes = func(key reconcile.Key) time.Duration { // so that slots that move have some in flight
		if n, _ := strconv.Atoi(strings.TrimPrefix(key.Namespace, "team-")); n%6 == 0 && key.Name == "a" {
			return 4 * time.Second
		}
		return quick(key)
	}
	x.mu.Unlock()
	x.ledger.restart()
	value := 0
	change := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); pass(100 * time.Millisecond) {
			value++
			x.set(value%all, fmt.Sprint(value))
			x.comeAndGo(value % (3 * all))
		}
	}
	change(10 * time.Second)
	x.join("d")
	change(40 * time.Second)
	for _, count := range x.cached(all) {
		x.Expect(count).To(BeNumerically("<=", 10), "a fifth more than a quarter")
	}
	x.kill("b")
	change(time.Minute)
	pass(10 * time.Second)
	for _, count := range x.cached(all) {
		x.Expect(count).To(BeNumerically("<=", 14))
	}
	x.Expect(x.ledger.unseen()).To(BeZero())
	x.Expect(len(x.ledger.twice)).To(BeNumerically("<=", all/4), "a Secret that comes with its shard leads to its key, too")
	x.Expect(x.ledger.worst).To(BeNumerically("<=", 30*time.Second), "no key has had no owner for longer")
	x.mu.Lock()
	defer x.mu.Unlock()
	for of := range all {
		object, err := x.admin.CoreV1().ConfigMaps(namespace(of)).Get(x.t.Context(), "a", metav1.GetOptions{})
		x.Expect(err).NotTo(HaveOccurred())
		key := reconcile.Key{Namespace: namespace(of), Name: "a"}
		x.Expect(x.seen).To(HaveKeyWithValue(key, object.Data["n"]))
		x.Expect(x.secrets).To(HaveKeyWithValue(key, true), "the Secret was cached when it was reconciled")
	}
	for key, value := range x.seen {
		_, err := x.admin.CoreV1().ConfigMaps(key.Namespace).Get(x.t.Context(), key.Name, metav1.GetOptions{})
		x.Expect(apierrors.IsNotFound(err)).To(Equal(value == "deleted"), "%v was last seen as %s", key, value)
	}
	for name, m := range x.members {
		x.Expect(m.configMaps.Status().Lists).To(BeEquivalentTo(1), "%s has not listed again what stayed", name)
	}
}

// An object that is deleted while no replica has its slot was never in the
// cache of the slot's next owner. This includes objects that were created just
// before, and objects that the last owner could not clean up.
func TestWhatIsDeletedBetweenTwoOwnersIsReconciledByTheNext(t *testing.T) {
	for _, selects := range []bool{true, false} {
		for _, ends := range []string{"stops", "dies"} {
			t.Run(fmt.Sprintf("server=%v/%s", selects, ends), func(t *testing.T) {
				inFleet(t, &apisim.Options{Shards: selects}, func(x *fleet) { deletedBetweenOwners(x, ends) })
			})
		}
	}
}

func deletedBetweenOwners(x *fleet, ends string) {
	const all = 16
	x.create(all)
	x.join("a")
	x.join("b")
	pass(2 * time.Minute)
	x.cached(all)
	of := 0
	for n := range all {
		if _, here := x.members["b"].configMaps.Get(reconcile.Key{Namespace: namespace(n), Name: "a"}); here {
			of = n
		}
	}
	maps := x.admin.CoreV1().ConfigMaps(namespace(of))
	_, err := maps.Create(x.t.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Name: "young"}}, metav1.CreateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	pass(time.Second)
	if ends == "dies" {
		x.kill("b")
	} else {
		go x.members["b"].stop()
		pass(time.Millisecond)
	}
	for _, name := range []string{"a", "young"} {
		x.Expect(maps.Delete(x.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
	}
	delete(x.members, "b")
	pass(time.Minute)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range []string{"a", "young"} {
		x.Expect(x.seen).To(HaveKeyWithValue(reconcile.Key{Namespace: namespace(of), Name: name}, "deleted"))
	}
}

// The last owner has the key in its queue when it drains, and the next one has
// not been there.
func TestWhatWasDeletedBeforeTheNextOwnerStartedIsReconciledByIt(t *testing.T) {
	for _, selects := range []bool{true, false} {
		inFleet(t, &apisim.Options{Shards: selects}, func(x *fleet) {
			const all = 16
			x.create(all)
			x.join("a")
			maps := x.admin.CoreV1().ConfigMaps(namespace(3))
			_, err := maps.Create(x.t.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Name: "young"}}, metav1.CreateOptions{})
			x.Expect(err).NotTo(HaveOccurred())
			pass(time.Minute)
			x.mu.Lock()
			x.takes = func(reconcile.Key) time.Duration { return 10 * time.Second }
			x.mu.Unlock()
			for of := range 4 { // as many as there are workers
				x.set(of, "1")
			}
			pass(time.Second)
			x.Expect(maps.Delete(x.t.Context(), "young", metav1.DeleteOptions{})).To(Succeed())
			pass(time.Second)
			x.join("b")
			x.members["a"].stop()
			delete(x.members, "a")
			pass(time.Minute)
			x.cached(all)
			x.mu.Lock()
			defer x.mu.Unlock()
			x.Expect(x.seen).To(HaveKeyWithValue(reconcile.Key{Namespace: namespace(3), Name: "young"}, "deleted"))
		})
	}
}

func TestAMapperThatLeavesItsNamespaceIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		clientset := kubernetes.NewForConfigOrDie(sim.Config("c"))
		shards, err := ranges.New(leader.Lease{
			Client: clientset.CoordinationV1(), Namespace: "default", Name: "fleet", Identity: "me",
		}, &shard.Options{Slots: 2})
		g.Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"a", "b"} {
			_, err := clientset.CoreV1().Secrets(name).Create(t.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		for name, of := range map[string]struct{ whole, leaves, logged bool }{
			"divided": {false, true, true}, "whole": {true, true, false}, "in its namespace": {false, false, false},
		} {
			secrets := informer.For(clientset.CoreV1().Secrets(""), &informer.Options{Whole: of.whole})
			c, err := reconcile.New("fleet", informer.For(clientset.CoreV1().ConfigMaps(""), nil), reconcile.Func[*configMap](
				func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
				&reconcile.Options{Shards: shards, Triggers: []reconcile.Trigger{
					reconcile.Mapped(secrets, func(_ context.Context, _, s *corev1.Secret) ([]reconcile.Key, error) {
						if of.leaves {
							return []reconcile.Key{{Namespace: "c", Name: "c"}}, nil
						}
						return []reconcile.Key{{Namespace: s.Namespace, Name: "c"}}, nil
					}),
				}})
			g.Expect(err).NotTo(HaveOccurred())
			var mu sync.Mutex
			logged := 0
			log := funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(args, "set informer.Options.Whole") {
					logged++
				}
			}, funcr.Options{})
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), log))
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			pass(time.Minute)
			cancel()
			g.Expect(<-done).To(Succeed())
			g.Expect(logged).To(Equal(map[bool]int{true: 1}[of.logged]), name)
		}
	})
}
