package reconciletest_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// post creates the child of a parent with a client that leaves retries to its
// caller.
func post(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	s := breeding.Child(p)
	err := b.Client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("secrets").Body(s).MaxRetries(0).
		Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// again tries to create the child until it succeeds. It calls between after
// each failed attempt.
func again(between func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap, err error)) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		for len(b.ChildrenOf(p)) == 0 {
			err := post(ctx, b, p)
			if !apierrors.IsTooManyRequests(err) && !apierrors.IsConflict(err) {
				return err
			}
			between(ctx, b, p, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}
}

// sleep waits, or for the end of the context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// told returns the delay that the server has requested, or zero.
func told(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// limited lets the queue choose the time of the next attempt, and then waits
// until the server accepts the write.
func limited() breeding.Breed {
	var mu sync.Mutex
	next := map[types.UID]time.Time{}
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		mu.Lock()
		at := next[p.UID]
		mu.Unlock()
		sleep(ctx, time.Until(at))
		err := post(ctx, b, p)
		mu.Lock()
		defer mu.Unlock()
		next[p.UID] = time.Now().Add(told(err))
		return err
	}
}

// throttled matches the deviations whose calls are answered with 429 or 409, or
// are refused for a while.
const throttled = `\.(429|409)$|^[uy]`

// A program that waits as requested may do so in any way.
func TestOddRetriesAreNotAccused(t *testing.T) {
	exhaustive(t)
	for _, b := range []struct {
		name, oracle string
		breed        func() breeding.Breed
	}{
		{"a limiter that knows the time", "", limited},
		{"exactly as long as told", "", func() breeding.Breed {
			return again(func(ctx context.Context, _ *breeding.Breeder, _ *corev1.ConfigMap, err error) { sleep(ctx, told(err)) })
		}},
		{"a back-off of its own, and at once after a conflict", "", func() breeding.Breed {
			return again(func(ctx context.Context, _ *breeding.Breeder, _ *corev1.ConfigMap, err error) {
				if apierrors.IsTooManyRequests(err) {
					sleep(ctx, 3*time.Second)
				}
			})
		}},
		{"reads while it waits", "", func() breeding.Breed {
			return again(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap, err error) {
				_, _ = b.Client.CoreV1().Secrets(p.Namespace).Get(ctx, p.Name+"-child", metav1.GetOptions{})
				sleep(ctx, told(err))
			})
		}},
		{"ten milliseconds", "retry", func() breeding.Breed {
			return again(func(ctx context.Context, _ *breeding.Breeder, _ *corev1.ConfigMap, _ error) {
				sleep(ctx, 10*time.Millisecond)
			})
		}},
		{"a bit less than told", "retry", func() breeding.Breed {
			return again(func(ctx context.Context, _ *breeding.Breeder, _ *corev1.ConfigMap, err error) {
				sleep(ctx, told(err)-time.Millisecond)
			})
		}},
		{"at once", "retry", func() breeding.Breed {
			return again(func(context.Context, *breeding.Breeder, *corev1.ConfigMap, error) {})
		}},
	} {
		t.Run(b.name, func(t *testing.T) {
			c := breeding.Case(nil)
			c.Run = bootEach(b.breed)
			r := reconciletest.FailureOf(t, c, nil, throttled)
			g := gomega.NewWithT(t)
			g.Expect(r.Oracle).To(gomega.Equal(b.oracle), "%s", r.Failure)
			if b.oracle == "" {
				g.Expect(r.Runs).To(gomega.Equal(3+2*7), "two writes, each with 429, 409 and five outages")
			}
		})
	}
}

// locking holds a lock, an object of its own, while it looks: a failure is one
// more look. The buggy one gives back the child, too, when it could not look.
func locking(right bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		secrets := b.Client.CoreV1().Secrets(p.Namespace)
		lock, child := breeding.Child(p), breeding.Child(p)
		lock.Name, lock.OwnerReferences = p.Name+"-lock", nil
		if p.Annotations["ready"] != "" {
			return nil
		}
		if err := errors.Join(b.Create(ctx, lock), b.Create(ctx, child)); err != nil {
			return err
		}
		_, err := b.Client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil && !right {
			err = errors.Join(err, secrets.Delete(ctx, child.Name, metav1.DeleteOptions{}))
		}
		if gone := secrets.Delete(ctx, lock.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(gone) {
			err = errors.Join(err, gone)
		}
		if err != nil {
			return err
		}
		return b.Ready(ctx, p)
	}
}

// Objects that are created and deleted before the program rests may be created
// and deleted once for each attempt. Objects that stay may not be deleted.
func TestALockMayBeTakenAndReleasedTwice(t *testing.T) {
	for _, b := range []struct {
		name, want string
		right      bool
	}{{"a lock alone", "", true}, {"a lock and the child", "it deletes secrets d/a-child: 1, and without the error 0", false}} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(locking(b.right))
			c.Workload, c.Goal = nil, nil
			lines, found := reconciletest.TraceOf(t, c, nil, "c8.500")
			g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(`call      get configmaps d/a .*<<< 500`)))
			g.Expect(found).To(gomega.Equal(b.want))
		})
	}
}

// migrating has a task done by another client before its parent is ready, as a
// Job is, and removes it. That it was done is recorded last, after a read: when
// that fails, it is done again.
func migrating(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["ready"] != "" {
		return nil
	}
	task := b.ChildrenOf(p)
	if len(task) == 0 {
		return b.Create(ctx, breeding.Child(p))
	}
	if task[0].Annotations["done"] == "" {
		return nil
	}
	if err := b.Client.CoreV1().Secrets("d").Delete(ctx, task[0].Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := b.Client.CoreV1().ConfigMaps("d").Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
		return err
	}
	return b.Ready(ctx, p)
}

// An object that another client has written to is more than a lock: its work
// must not be repeated for each attempt.
func TestATaskThatIsDoneTwiceIsFound(t *testing.T) {
	g := gomega.NewWithT(t)
	undone := func(w *reconciletest.World) []corev1.Secret {
		secrets, _ := reconciletest.List[corev1.Secret](w, "secrets")
		return slices.DeleteFunc(secrets, func(s corev1.Secret) bool { return s.Annotations["done"] != "" })
	}
	c := breeding.Case(migrating)
	c.Workload, c.Goal = nil, nil
	c.Actors = []reconciletest.Actor{{
		Name:    "do a task",
		Enabled: func(w *reconciletest.World) bool { return len(undone(w)) > 0 },
		Do: func(w *reconciletest.World) {
			task := undone(w)[0]
			metav1.SetMetaDataAnnotation(&task.ObjectMeta, "done", "yes")
			if _, err := w.Client().CoreV1().Secrets("d").Update(t.Context(), &task, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		},
	}}
	lines, found := reconciletest.TraceOf(t, c, nil, "c9.500")
	g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(`call      get configmaps d/a .*<<< 500`)))
	g.Expect(found).To(gomega.Equal("it deletes secrets d/a-child: 2, and without the error 1"))
}

// never is the number of attempts for a program that does not give up.
const never = math.MaxInt

// breaking stops for longer than any outage lasts when three attempts have
// failed in a row. After most of them it stops for good.
func breaking(most int) breeding.Breed {
	var mu sync.Mutex
	failures := 0
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		mu.Lock()
		open := failures >= most
		mu.Unlock()
		if open {
			return nil
		}
		err := breeding.Right(ctx, b, p)
		mu.Lock()
		if failures++; err == nil {
			failures = 0
		}
		wait := failures >= 3
		mu.Unlock()
		if wait {
			sleep(ctx, 45*time.Second)
		}
		return err
	}
}

// trying retries on its own, multiplying the wait by times after each attempt;
// it gives up after most attempts.
func trying(most int, wait, times time.Duration) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		for d, n := wait, 1; ; d, n = d*times, n+1 {
			err := breeding.Right(ctx, b, p)
			if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
				return err
			}
			if n >= most {
				return nil
			}
			sleep(ctx, d)
		}
	}
}

// An outage is over before a program counts as at rest, whichever way it waits.
// It is found if it gives up before.
func TestOddWaysToSitOutAnOutageAreNotAccused(t *testing.T) {
	for name, breed := range map[string]func(most int) breeding.Breed{
		"a circuit breaker":     breaking,
		"every two seconds":     func(most int) breeding.Breed { return trying(most, 2*time.Second, 1) },
		"a back-off of its own": func(most int) breeding.Breed { return trying(most, time.Second, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			found := func(most int) string {
				c := breeding.Case(nil)
				c.Run = bootEach(func() breeding.Breed { return breed(most) })
				c.Workload, c.Goal = nil, nil
				all := ""
				for _, text := range []string{"u4", "u5", "u6", "u7"} {
					_, one := reconciletest.TraceOf(t, c, nil, text)
					all += one
				}
				return all
			}
			gomega.NewWithT(t).Expect(found(never)).To(gomega.BeEmpty())
			gomega.NewWithT(t).Expect(found(3)).To(gomega.HavePrefix("the state differs from the run without faults"))
		})
	}
}

// relieved runs two parts of a program that make the same Secret, the second
// one half a second after the first. Put off, the first waits as it is told,
// and finds it done.
func relieved(env *reconciletest.Env) error {
	ctx := env.Context()
	var mu sync.Mutex
	done := false
	part := func(after time.Duration) {
		sleep(ctx, after)
		for ctx.Err() == nil {
			mu.Lock()
			over := done
			mu.Unlock()
			if over {
				return
			}
			shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "shared"}}
			err := env.Client().CoreV1().RESTClient().Post().Namespace("d").Resource("secrets").Body(shared).MaxRetries(0).
				Do(ctx).Error()
			if err == nil || apierrors.IsAlreadyExists(err) {
				mu.Lock()
				done = true
				mu.Unlock()
				return
			}
			sleep(ctx, max(told(err), time.Second))
		}
	}
	var join sync.WaitGroup
	for _, after := range []time.Duration{0, time.Second / 2} {
		join.Go(func() { part(after) })
	}
	<-ctx.Done()
	join.Wait()
	return nil
}

// The requests look like the requests of a program that does not wait, so the
// case must declare this finding.
func TestAPartThatFindsItDoneIsDeclared(t *testing.T) {
	exhaustive(t)
	g := gomega.NewWithT(t)
	c := once()
	c.Run = relieved
	o := &reconciletest.Options{Budget: 20 * time.Second, Seeds: 1, SkipDrift: true}
	g.Expect(reconciletest.Search(t, c, o).Oracle).To(gomega.Equal("retry"))
	o.KnownFindings = []string{"as it is told (429"}
	r := reconciletest.Search(t, c, o)
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.KnownFindings).To(gomega.BeNumerically(">", 0))
}
