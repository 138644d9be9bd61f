package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

// remotes is a controller of objects that each have an outside system. The
// systems of those whose name begins with "dead" do not answer.
type remotes struct {
	*fixture
	began map[string][]time.Time // reconciles, guarded by fixture.mu
	alive bool                   // whether the dead ones answer again, guarded by fixture.mu
}

// address is a member of an object. With the value right its system answers.
const address = "address"

func (x *remotes) reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	x.mu.Lock()
	x.began[r.Key.Name] = append(x.began[r.Key.Name], time.Now())
	object, found := r.Object()
	answers := x.alive || !strings.HasPrefix(r.Key.Name, "dead") || found && object.Data[address] == "right"
	x.mu.Unlock()
	if answers {
		return nothing, nil
	}
	<-ctx.Done()
	return nothing, fmt.Errorf("asking the system of %s: %w", r.Key.Name, ctx.Err())
}

// reconciles returns when the reconciles of each key began, and forgets them.
func (x *remotes) reconciles() map[string][]time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := x.began
	x.began = map[string][]time.Time{}
	return began
}

func inRemotes(t *testing.T, o *reconcile.Options, f func(x *remotes)) {
	t.Helper()
	inFixture(t, func(w *fixture) {
		x := &remotes{fixture: w, began: map[string][]time.Time{}}
		stop := w.start(o, x.reconcile)
		f(x)
		w.Expect(stop()).To(Or(Succeed(), MatchError(reconcile.ErrGraceExpired)))
	})
}

// Twelve systems are black holes. The reconciles of their objects end with the
// deadline of two minutes.
func TestKeysThatFailSlowlyDelayNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		options reconcile.Options
		change  bool // whether the dead ones change, too
	}{
		"one group":         {},
		"a group each":      {options: reconcile.Options{Group: func(k reconcile.Key) string { return k.Name }}},
		"they change":       {change: true},
		"two workers":       {options: reconcile.Options{Workers: 2}},
		"a shorter timeout": {options: reconcile.Options{ReconcileTimeout: 15 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inRemotes(t, &c.options, func(x *remotes) {
				for n := range 12 {
					x.create(fmt.Sprint("dead-", n), fmt.Sprint("well-", n))
				}
				pass(20 * time.Minute) // the first time is not known to be slow
				x.reconciles()
				for n := range 6 * 60 {
					name := fmt.Sprint("well-", n%12)
					changed := time.Now()
					x.update(name, func(m *configMap) { m.Data = map[string]string{"n": fmt.Sprint(n)} })
					if c.change {
						x.update(fmt.Sprint("dead-", n%12), func(m *configMap) { m.Generation = int64(n) + 1 })
					}
					synctest.Wait()
					x.mu.Lock()
					x.Expect(x.began[name]).NotTo(BeEmpty(), "change %d", n)
					last := x.began[name][len(x.began[name])-1]
					x.mu.Unlock()
					x.Expect(last).To(Equal(changed))
					pass(10 * time.Second)
				}
				began := x.reconciles()
				for n := range 12 { // none starves
					x.Expect(len(began[fmt.Sprint("dead-", n)])).To(BeNumerically(">=", 2))
				}
			})
		})
	}
}

func TestKeysThatFailSlowlyAreNamedAndHeal(t *testing.T) {
	inRemotes(t, nil, func(x *remotes) {
		x.create("dead-1", "dead-2", "well")
		pass(time.Hour)
		x.Expect(x.controllers[0].Problems()).To(BeEmpty(), "two of four workers are enough for two keys")
		for n := range 10 {
			x.create(fmt.Sprint("dead-more-", n))
		}
		pass(20 * time.Minute)
		problems := x.controllers[0].Problems()
		x.Expect(problems).To(HaveLen(2))
		x.Expect(problems[0].Cause).To(Equal("same error"))
		x.Expect(problems[1].Cause).To(Equal("slow failures"))
		x.Expect(problems[1].String()).To(And(HavePrefix("d/dead-"), ContainSubstring("at most 2 of 4 workers")))

		x.mu.Lock()
		x.alive = true
		x.mu.Unlock()
		pass(2 * time.Minute) // the last reconciles without an answer end
		x.Expect(x.controllers[0].Problems()).To(BeEmpty())
		x.reconciles()
		pass(6 * time.Minute) // the longest back-off
		x.Expect(x.controllers[0].Stats().Failing).To(BeZero())
	})
}

// A person corrects the addresses of one after the other, while those of the
// rest change without an effect, or do not change.
func TestAChangeDoesNotWaitForAllKeysThatFailSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		workers, changed int
		within           time.Duration
	}{
		"nothing else changes":             {4, 0, 4 * time.Minute},
		"three others change all the time": {4, 3, 8 * time.Minute},
		"one of two workers":               {2, 0, 8 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inRemotes(t, &reconcile.Options{Workers: c.workers}, func(x *remotes) {
				for n := range 30 {
					x.create(fmt.Sprint("dead-", n))
				}
				pass(2 * time.Hour)
				version := 0
				change := func(n int, value string) {
					version++
					x.update(fmt.Sprint("dead-", n), func(m *configMap) {
						m.ResourceVersion, m.Data = fmt.Sprint(version), map[string]string{address: value}
					})
				}
				for n := range 5 {
					change(n, "right")
					x.reconciles()
					for range c.within / time.Minute {
						for other := range c.changed {
							change(10+other, "wrong")
						}
						pass(time.Minute)
					}
					x.Expect(x.reconciles()).To(HaveKey(fmt.Sprint("dead-", n)))
				}
				x.reconciles()
				for range 4 * 60 {
					for other := range c.changed {
						change(10+other, "wrong")
					}
					pass(time.Minute)
				}
				began := x.reconciles()
				for n := 5; n < 30; n++ { // none starves
					x.Expect(began).To(HaveKey(fmt.Sprint("dead-", n)))
				}
			})
		})
	}
}

// The only worker reconciles all keys.
func TestOneWorkerReconcilesKeysThatFailSlowly(t *testing.T) {
	inRemotes(t, &reconcile.Options{Workers: 1}, func(x *remotes) {
		x.create("dead-1", "dead-2", "well")
		pass(time.Hour)
		began := x.reconciles()
		x.Expect(len(began["dead-1"])).To(BeNumerically(">", 5))
		x.Expect(len(began["dead-2"])).To(BeNumerically(">", 5))
	})
}

// MinInterval is longer than a key that is set aside waits until it is checked
// again.
func TestKeysThatFailSlowlyTakeTurnsWithALongMinInterval(t *testing.T) {
	inRemotes(t, &reconcile.Options{MinInterval: 10 * time.Minute}, func(x *remotes) {
		for n := range 16 {
			x.create(fmt.Sprint("dead-", n))
		}
		pass(2 * time.Hour)
		x.reconciles()
		pass(10 * time.Hour)
		began := x.reconciles()
		for n := range 16 {
			x.Expect(len(began[fmt.Sprint("dead-", n)])).To(BeNumerically(">=", 3), "key %d", n)
		}
		x.Expect(x.controllers[0].Problems()).To(ContainElement(HaveField("Cause", "slow failures")))
	})
}

// The keys of namespace b wait for their turn when b must be listed again.
func TestKeysThatWaitForTheirNamespaceHoldNoPlaceOfKeysThatFailSlowly(t *testing.T) {
	inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
		stop := w.start(&reconcile.Options{
			Workers: 2, ReconcileTimeout: 15 * time.Second, Backoff: queue.Backoff{Base: 1, Cap: 1},
		}, func(ctx context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Namespace)
			<-ctx.Done()
			return nothing, ctx.Err()
		})
		for n := range 8 {
			w.put("b", fmt.Sprint(n))
		}
		w.put("a", "1")
		w.put("a", "2")
		pass(10 * time.Minute)
		w.forbidden["b"].Store(true)
		w.Expect(w.in.SetNamespaces("a")).To(Succeed())
		w.Expect(w.in.SetNamespaces("a", "b")).To(Succeed())
		pass(15 * time.Second) // the reconcile that runs ends
		w.reconciled()
		pass(time.Minute)
		ran := w.reconciled()
		w.Expect(ran).To(HaveEach("a"))
		w.Expect(len(ran)).To(BeNumerically(">=", 3), "one ends every 15 seconds")
		w.Expect(stop()).To(Succeed())
	})
}

// Long reconciles that succeed, or fail soon, may use all workers.
func TestLongReconcilesThatSucceedUseAllWorkers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		running, most := 0, 0
		resync := &reconcile.Options{Resync: time.Minute}
		stop := w.start(resync, func(ctx context.Context, r request) (reconcile.Result, error) {
			w.mu.Lock()
			running++
			most = max(most, running)
			w.mu.Unlock()
			defer func() {
				w.mu.Lock()
				running--
				w.mu.Unlock()
			}()
			if strings.HasPrefix(r.Key.Name, "fails") {
				return nothing, errors.New("at once")
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return nothing, nil
		})
		w.create("a", "b", "c", "d", "e", "f", "g", "fails-1", "fails-2")
		pass(10 * time.Minute)
		w.mu.Lock()
		most = 0
		w.mu.Unlock()
		pass(10 * time.Minute)
		w.mu.Lock()
		w.Expect(most).To(Equal(4))
		w.mu.Unlock()
		w.Expect(stop()).To(Succeed())
	})
}
