package children_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/patch/children"
)

// slow makes every request take a second, and returns how many are under way at
// most.
func (w *fixture) slow() (most *atomic.Int64) {
	var now, max atomic.Int64
	w.fault = func(int) (before, after error) {
		n := now.Add(1)
		defer now.Add(-1)
		for was := max.Load(); n > was && !max.CompareAndSwap(was, n); was = max.Load() {
		}
		<-time.After(time.Second)
		return nil, nil
	}
	return &max
}

func TestChildrenAreWrittenAndDeletedSideBySide(t *testing.T) {
	for parallel, seconds := range map[int]int{0: 2, 1: 20, 5: 4, 100: 1} {
		o := &children.Options{Parallel: parallel}
		inFixture(t, &children.Options{MaxShare: 1}, func(w *fixture) {
			o.MaxShare = 1
			w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, o)
			most := w.slow()
			for _, names := range [][]string{named(20), nil} {
				begin := time.Now()
				got, err := w.set.Ensure(w.t.Context(), w.owner, wants(names...)...)
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(got).To(HaveLen(len(names)))
				for i, s := range got {
					w.Expect(s.Name).To(Equal(names[i]), "in their order")
				}
				took := time.Duration(seconds) * time.Second
				if names == nil {
					took += time.Second // the owner is confirmed
				}
				w.Expect(time.Since(begin)).To(Equal(took), "%d at a time", parallel)
				synctest.Wait()
				w.Expect(w.has()).To(HaveLen(len(names)))
			}
			w.Expect(most.Load()).To(BeEquivalentTo(20 / seconds))
		})
	}
}

// Edits of one reconciler share what it has read, and what it counts.
func TestEditsAreNotCalledAtTheSameTime(t *testing.T) {
	inFixture(t, &children.Options{Parallel: 8}, func(w *fixture) {
		var editing sync.Mutex
		var wanted []child
		for _, name := range named(40) {
			wanted = append(wanted, child{Name: name, Edit: func(*corev1.Secret) {
				w.Expect(editing.TryLock()).To(BeTrue())
				runtime.Gosched()
				editing.Unlock()
			}})
		}
		_, err := w.set.Ensure(w.t.Context(), w.owner, wanted...)
		w.Expect(err).NotTo(HaveOccurred())
	})
}

// One tenant's admission webhook takes a minute, and the other copies are
// created at once.
func TestOneSlowRefusalDoesNotKeepTheOthersWaiting(t *testing.T) {
	inFixture(t, &children.Options{Parallel: 2}, func(w *fixture) {
		names := named(20)
		w.fault = func(n int) (before, after error) {
			if n == 1 {
				<-time.After(time.Minute)
				return errors.New("refused"), nil
			}
			<-time.After(time.Second)
			return nil, nil
		}
		refused := make(chan error)
		go func() {
			_, err := w.set.Ensure(w.t.Context(), w.owner, wants(names...)...)
			refused <- err
		}()
		<-time.After(20 * time.Second)
		w.Expect(w.has()).To(HaveLen(19))
		w.Expect(<-refused).To(MatchError(ContainSubstring("refused")))
	})
}

func TestErrorsOfManyChildrenAreTenAndACount(t *testing.T) {
	inFixture(t, &children.Options{Parallel: 10}, func(w *fixture) {
		names := named(100)
		long := make([]byte, 100_000)
		for i := range long {
			long[i] = 'x'
		}
		last := wants(names...)
		w.create(names[99], nil)
		w.fault = func(int) (before, after error) { return errors.New(string(long)), nil }
		_, err := w.set.Ensure(w.t.Context(), w.owner, last...)
		w.Expect(len(err.Error())).To(BeNumerically("<", 20_000))
		w.Expect(err).To(MatchError(ContainSubstring("and 90 more errors")))
		w.Expect(err).To(MatchError(And(ContainSubstring(names[0]), ContainSubstring(names[9]), Not(ContainSubstring(names[10])))))
		w.Expect(err).To(MatchError(children.ErrForeign), "the last one is found, too")
	})
}

func TestAPanicInAnEditReachesTheCallerAndStopsNoOtherChild(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		inFixture(t, &children.Options{Parallel: parallel}, func(w *fixture) {
			w.Expect(w.ensure("unwanted")).To(Succeed())
			bad := wants(named(20)...)
			bad[7].Edit = func(*corev1.Secret) { panic("in an edit") }
			var failed any
			func() {
				defer func() { failed = recover() }()
				_, _ = w.set.Ensure(w.t.Context(), w.owner, bad...)
			}()
			w.Expect(fmt.Sprint(failed)).To(And(HavePrefix("in an edit\n"), ContainSubstring("beside_test.go")))
			synctest.Wait()
			w.Expect(w.has()).To(And(HaveLen(20), ContainElement("unwanted"), Not(ContainElement(bad[7].Name))))
			w.Expect(w.ensure(named(20)...)).To(Succeed(), "the set goes on")
		})
	}
}

func TestAGoroutineThatAnEditEndsEndsTheCaller(t *testing.T) {
	inFixture(t, &children.Options{Parallel: 4}, func(w *fixture) {
		bad := wants(named(20)...)
		bad[7].Edit = func(*corev1.Secret) { runtime.Goexit() }
		returned := false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = w.set.Ensure(w.t.Context(), w.owner, bad...)
			returned = true
		}()
		<-ended
		w.Expect(returned).To(BeFalse())
	})
}

// A simulated run must be the same each time.
func TestASimulationWritesOneAfterTheOther(t *testing.T) {
	defer simhook.Use(&simhook.Hooks{})()
	inFixture(t, &children.Options{Parallel: 10}, func(w *fixture) {
		most := w.slow()
		w.Expect(w.ensure(named(5)...)).To(Succeed())
		w.Expect(most.Load()).To(BeEquivalentTo(1))
	})
}
