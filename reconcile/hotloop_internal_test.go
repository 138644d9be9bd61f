package reconcile

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/queue"
)

func newTestQueue(g *WithT) *queue.Queue[Key] {
	q, err := queue.New[Key](nil)
	g.Expect(err).NotTo(HaveOccurred())
	return q
}

func written(version, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", ResourceVersion: version},
		Data:       map[string]string{"v": value},
	}
}

// loopFixture is a detector and its queue.
type loopFixture struct {
	*WithT
	*loopDetector
	t       *testing.T
	version int
}

// inLoops runs f in virtual time.
func inLoops(t *testing.T, f func(l *loopFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := typed[*corev1.ConfigMap]{informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)}
		f(&loopFixture{g, &loopDetector{manager: "us", sources: sources{in}, queue: newTestQueue(g)}, t, 0})
	})
}

// reconcile dispatches a key, has it write, and returns the delay of the
// object.
func (l *loopFixture) reconcile(key string, writes ...write) time.Duration {
	l.t.Helper()
	item, err := l.queue.Get(l.t.Context())
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(item.Key().Name).To(Equal(key))
	defer item.Done()
	return l.observe(item, writes).worst.delay
}

// wake adds the key because of another cause than its writes.
func (l *loopFixture) wake(key string) { l.queue.Add(Key{Name: key}) }

// event adds the key because of an event of the last write.
func (l *loopFixture) event(key string) {
	l.add(Key{Name: key}, &change{
		objectRef: objectRef{0, Key{Namespace: "d", Name: "a"}}, uid: "1", version: strconv.Itoa(l.version),
	}, queue.AddOptions{})
}

// patched is a write of a merge patch, with a version of its own.
func (l *loopFixture) patched(patch string) write {
	l.version++
	return write{
		object: written(strconv.Itoa(l.version), ""), outcome: ownwrites.Written,
		content: ownwrites.PatchOf(string(types.MergePatchType), "", []byte(patch)),
	}
}

func (l *loopFixture) setting(value string) write {
	return l.patched(fmt.Sprintf(`{"metadata":{"uid":"1","resourceVersion":"%d"},"data":{"v":%q}}`, l.version, value))
}

func TestTheFifthWriteOfOneThingIsSlowedDown(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for n := range 8 {
			l.wake("k")
			delay := l.reconcile("k", l.setting("ours"))
			l.Expect(min(delay, 1)).To(BeEquivalentTo(max(min(n-3, 1), 0)), "write %d", n+1)
		}
	})
}

func TestTheDelayOfAHotLoopDoublesUpToAMinute(t *testing.T) {
	g := NewWithT(t)
	var delays []time.Duration
	for n := range 8 {
		delays = append(delays, delayOf(patience-1+n)/time.Second)
	}
	g.Expect(delays).To(Equal([]time.Duration{0, 4, 8, 16, 32, 60, 60, 60}))
	g.Expect(delayOf(1_000_000)).To(Equal(time.Minute))
}

func TestWritesAtMostTenSecondsApartAreAHotLoop(t *testing.T) {
	for _, apart := range []time.Duration{calmPeriod, calmPeriod + 1} {
		inLoops(t, func(l *loopFixture) {
			slowed := false
			for range 20 {
				<-time.After(apart)
				l.wake("k")
				slowed = l.reconcile("k", l.setting("ours")) > 0 || slowed
			}
			l.Expect(slowed).To(Equal(apart == calmPeriod), "%v apart", apart)
		})
	}
}

func TestAnEndedLoopIsNotNamedAtTheNextWriteWithoutProgress(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for range 5 {
			l.wake("k")
			l.reconcile("k", l.setting("ours"))
		}
		var loops []string
		for range 2 {
			<-time.After(9 * time.Second)
			l.wake("k")
			item, err := l.queue.Get(l.t.Context())
			l.Expect(err).NotTo(HaveOccurred())
			loops = append(loops, l.observe(item, []write{l.setting("new")}).loops)
			item.Done()
		}
		l.Expect(loops).To(HaveExactElements(ContainSubstring(`field "data.v" was written 4 times`), BeEmpty()))
	})
}

// The cached state of another object with that name says nothing about this
// object.
func TestAWriteIsNotComparedWithAnotherObject(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		var delay time.Duration
		for range 5 {
			l.wake("k")
			w, before := l.setting("ours"), written("0", "ours")
			before.UID = "0"
			w.cached = before
			delay = l.reconcile("k", w)
		}
		l.Expect(delay).To(Equal(shortestDelay))
	})
}

// Only the reaction to changes of the object is delayed. No other key is
// delayed.
func TestOnlyTheReactionToChangesOfTheObjectWaits(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for range 5 {
			l.wake("k")
			l.reconcile("k", l.setting("ours"))
		}
		began := time.Now()
		l.event("other")
		l.reconcile("other")
		l.wake("k")
		l.reconcile("k")
		l.add(Key{Name: "k"}, &change{objectRef: objectRef{0, Key{Namespace: "d", Name: "b"}}}, queue.AddOptions{})
		l.reconcile("k")
		l.Expect(time.Since(began)).To(BeZero())
		l.version++ // another client
		l.event("k")
		l.reconcile("k", l.setting("ours"))
		l.Expect(time.Since(began)).To(Equal(shortestDelay))
		l.version++
		l.event("k")
		l.reconcile("k", l.setting("ours"))
		l.Expect(time.Since(began)).To(Equal(shortestDelay + 2*shortestDelay))
	})
}

// An event during the reconcile that leads to the delay waits, too.
func TestAnEventDuringTheReconcileIsJudgedAtItsEnd(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for n := range 5 {
			l.wake("k")
			item, err := l.queue.Get(l.t.Context())
			l.Expect(err).NotTo(HaveOccurred())
			l.begin(item.Key(), &arrivals{})
			w := l.setting("ours")
			l.event("k") // before the answer is observed
			l.observe(item, []write{w})
			item.Done()
			began := time.Now()
			item, err = l.queue.Get(l.t.Context())
			l.Expect(err).NotTo(HaveOccurred())
			l.Expect(item.Own()).To(BeTrue(), "it was the write's own event")
			if n < 4 {
				l.Expect(time.Since(began)).To(BeZero())
			} else {
				l.Expect(time.Since(began)).To(Equal(shortestDelay))
			}
			item.Done()
		}
	})
}

// The watch is faster than the answer, and leads to another key, which would
// write again.
func TestTheDelayBeginsAgainWithEachRequest(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for range 5 {
			l.wake("k")
			l.reconcile("k", l.setting("ours"))
		}
		began := time.Now()
		<-time.After(3 * time.Second)
		l.sending([]*baseline{
			{objectRef: objectRef{0, Key{Namespace: "d", Name: "of no loop"}}}, {objectRef: objectRef{0, Key{Namespace: "d", Name: "a"}}},
		})
		l.version++
		l.event("k")
		l.reconcile("k")
		l.Expect(time.Since(began)).To(Equal(3*time.Second + shortestDelay))
	})
}

func TestAllLoopsOfAKeyAreCounted(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for n := range 6 {
			other := l.setting("ours")
			other.object.SetName("b")
			other.object.SetUID("2")
			l.wake("k")
			item, err := l.queue.Get(l.t.Context())
			l.Expect(err).NotTo(HaveOccurred())
			seen := l.observe(item, []write{l.setting("ours"), other})
			item.Done()
			if n < 4 {
				l.Expect(seen.loops).To(BeEmpty())
			} else {
				l.Expect(seen.loops).To(And(HavePrefix("hot loop: d/"), HaveSuffix(" (and 1 more)")))
				l.Expect(seen.endsAt).To(Equal(time.Now().Add(delayOf(n-1) + calmPeriod)))
			}
		}
	})
}

// A key that is woken by its own writes alone makes no progress, whatever it
// writes.
func TestNewValuesThatOnlyOwnWritesLeadToAreAHotLoop(t *testing.T) {
	for name, c := range map[string]struct {
		wake   func(l *loopFixture, n int)
		value  func(n int) string
		slowed int
	}{
		"own events": {func(l *loopFixture, _ int) { l.event("k") }, func(n int) string {
			return fmt.Sprintf(`{"data":{"v":"%d"}}`, n)
		}, 6},
		"a change of another client every fourth time": {func(l *loopFixture, n int) {
			if l.event("k"); n%4 == 0 {
				l.wake("k")
			}
		}, func(n int) string { return fmt.Sprintf(`{"data":{"v":"%d"}}`, n) }, 0},
		"one field after the other": {func(l *loopFixture, _ int) { l.event("k") }, func(n int) string {
			return fmt.Sprintf(`{"data":{"v%d":"1"}}`, n)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inLoops(t, func(l *loopFixture) {
				first := 0
				l.wake("k")
				for n := range 30 {
					if l.reconcile("k", l.patched(c.value(n))) > 0 && first == 0 {
						first = n + 1
					}
					c.wake(l, n)
				}
				l.Expect(first).To(Equal(c.slowed))
			})
		})
	}
}

// A failed reconcile is retried after its back-off. It is not the event of the
// report of the failure that leads to the next report.
func TestReportsOfFailedAttemptsAreNoHotLoop(t *testing.T) {
	for name, early := range map[string]bool{"the event arrives during the attempt": true, "and after it": false} {
		t.Run(name, func(t *testing.T) {
			inLoops(t, func(l *loopFixture) {
				l.wake("k")
				for n := range 30 {
					item, err := l.queue.Get(l.t.Context())
					l.Expect(err).NotTo(HaveOccurred())
					l.begin(item.Key(), &arrivals{})
					report := l.patched(fmt.Sprintf(`{"status":{"attempt":"%d"}}`, n))
					if early {
						l.event("k")
					}
					seen := l.observe(item, []write{report})
					l.Expect(seen.worst.delay).To(BeZero(), "attempt %d", n)
					l.Expect(seen.loops).To(BeEmpty())
					item.RetryAfter(time.Second)
					if !early {
						l.event("k")
					}
				}
			})
		})
	}
}

func TestValuesThatToggleAreNoHotLoop(t *testing.T) {
	for name, patches := range map[string][]string{
		"a field":        {`{"data":{"v":"1"}}`, `{"data":{"v":"2"}}`},
		"a part of it":   {`{"data":{"v":"1","w":"1"}}`, `{"data":{"v":"2"}}`},
		"all or nothing": {`{"data":{"v":"1"}}`, `{"data":null}`},
		"its presence":   {`{"metadata":{"finalizers":["f"]}}`, `{"metadata":{"finalizers":null}}`},
	} {
		inLoops(t, func(l *loopFixture) {
			for n := range 100 {
				l.wake("k")
				l.Expect(l.reconcile("k", l.patched(patches[n%2]))).To(BeZero(), name)
			}
		})
	}
}

// Two keys that set different values are both told, and take turns.
func TestTwoKeysThatWriteOneObjectInTurnAreAHotLoop(t *testing.T) {
	for _, keys := range []int{2, 3, 5} {
		inLoops(t, func(l *loopFixture) {
			began, writes, first := time.Now(), 0, 0
			present := ""
			l.wake("k0")
			for time.Since(began) < 30*time.Minute {
				item, err := l.queue.Get(l.t.Context())
				l.Expect(err).NotTo(HaveOccurred())
				var own []write
				if key := item.Key().Name; present != key {
					present = key
					own = []write{l.setting(key)}
					if writes++; time.Since(began) < time.Minute {
						first++
					}
				}
				l.observe(item, own)
				for k := range keys {
					if len(own) > 0 {
						l.event(fmt.Sprintf("k%d", k))
					}
				}
				item.Done()
			}
			l.Expect(first).To(BeNumerically("<=", 6+2*keys), "%d keys", keys)
			l.Expect(writes).To(BeNumerically("<=", 40+keys), "%d keys", keys)
			l.Expect(writes).To(BeNumerically(">", 20), "slowed down, not dropped")
		})
	}
}

// Two clients undo each other's work: for example, a garbage collector deletes
// what the other client creates again.
func TestCreationsAndDeletionsThatAreUndoneAreAHotLoop(t *testing.T) {
	of := func(l *loopFixture, n int) *corev1.ConfigMap {
		l.version++
		object := written(strconv.Itoa(l.version), "ours")
		object.UID = types.UID(strconv.Itoa(n))
		return object
	}
	for name, c := range map[string]struct {
		write  func(l *loopFixture, n int) write
		slowed int
	}{
		"created": {func(l *loopFixture, n int) write {
			return write{object: of(l, n), outcome: ownwrites.Written, content: created(`{"data":{"v":"ours"}}`)}
		}, 5},
		"created, reported by a fake": {func(l *loopFixture, n int) write {
			return write{object: of(l, n), outcome: ownwrites.Written}
		}, 6},
		"created with other content": {func(l *loopFixture, n int) write {
			body := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"uid":"%d"}]}}`, n)
			return write{object: of(l, n), outcome: ownwrites.Written, content: created(body)}
		}, 0},
		"deleted": {func(l *loopFixture, n int) write {
			return write{object: of(l, n), outcome: ownwrites.Removed, deleted: true}
		}, 5},
		"deleted, of an unknown UID": {func(l *loopFixture, n int) write {
			object := of(l, n)
			object.UID = ""
			return write{
				object: object, outcome: ownwrites.Removed, deleted: true, resource: schema.GroupResource{Resource: "configmaps"},
			}
		}, 5},
		"created and deleted in turn": {func(l *loopFixture, n int) write {
			if n%2 == 0 {
				return write{object: of(l, n/2), outcome: ownwrites.Removed, deleted: true}
			}
			return write{object: of(l, n/2), outcome: ownwrites.Written, content: created(`{"data":{"v":"ours"}}`)}
		}, 0},
		"changed after it was created by another client": {func(l *loopFixture, n int) write {
			w := l.setting("ours")
			w.object.SetUID(types.UID(strconv.Itoa(n / 3)))
			return w
		}, 0},
	} {
		inLoops(t, func(l *loopFixture) {
			first := 0
			for n := range 12 {
				l.wake("k")
				if l.reconcile("k", c.write(l, n)) > 0 && first == 0 {
					first = n + 1
				}
			}
			l.Expect(first).To(Equal(c.slowed), name)
		})
	}
}

func created(body string) ownwrites.Content {
	c := ownwrites.PatchOf("application/json", "", []byte(body))
	c.Method = "POST"
	return c
}

// A recreated object is a different object, to which nothing has been written
// yet.
func TestTheReactionToARecreatedObjectDoesNotWait(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for range 5 {
			l.wake("k")
			l.reconcile("k", l.setting("ours"))
		}
		began := time.Now()
		at := objectRef{0, Key{Namespace: "d", Name: "a"}}
		l.add(Key{Name: "k"}, &change{objectRef: at, uid: "2", version: "99"}, queue.AddOptions{})
		w := l.setting("ours")
		w.object.SetUID("2")
		l.Expect(l.reconcile("k", w)).To(BeZero())
		l.Expect(time.Since(began)).To(BeZero())
	})
}

// A write that has changed no field cannot have been undone.
func TestAWriteWithoutAnEffectDoesNotCount(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for n := range 100 {
			w := l.setting("ours")
			w.cached = written(w.object.GetResourceVersion(), "ours")
			if n%2 == 0 { // its patch has it all, and another client has changed something else
				w.cached = written("other", "ours")
			}
			l.wake("k")
			l.Expect(l.reconcile("k", w)).To(BeZero())
		}
	})
}

// Rare repairs of an object that is written all the time are isolated.
func TestIsolatedRepairsAmongOtherWritesAreNoHotLoop(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for n := range 1000 {
			l.wake("k")
			value := strconv.Itoa(n)
			if n%20 == 0 {
				value = strconv.Itoa(n - 1) // again
			}
			l.Expect(l.reconcile("k", l.setting(value))).To(BeZero())
			<-time.After(time.Second)
		}
	})
}

func TestALoopThatHasCalmedDownIsOver(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		fight := func() (writes int) {
			for slowed := false; !slowed; writes++ {
				l.wake("k")
				slowed = l.reconcile("k", l.setting("ours")) > 0
			}
			return writes
		}
		l.Expect(fight()).To(Equal(5))
		for range 30 { // something else of the object changes all the time
			l.version++
			l.event("k")
			<-time.After(time.Second)
			if l.queue.Len() > 0 {
				l.reconcile("k") // there is nothing to repair
			}
		}
		l.Expect(l.looping).To(BeEmpty())
		l.Expect(fight()).To(Equal(5))
		<-time.After(calmPeriod + shortestDelay + 1)
		l.Expect(fight()).To(Equal(5))
	})
}

func TestABoundedNumberOfObjectsIsWatchedForHotLoops(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		loops := func(names ...string) bool {
			writes := make([]write, len(names))
			for i, name := range names {
				writes[i] = l.setting("ours")
				writes[i].object.SetName(name)
			}
			l.wake("k")
			return l.reconcile("k", writes...) > 0
		}
		var many []string
		for i := range maxTracked + 100 {
			many = append(many, strconv.Itoa(i))
		}
		loops(many...)
		l.Expect(l.outputs).To(HaveLen(maxTracked))
		fights := func(name string) (found bool) {
			for range 10 {
				found = loops(name)
			}
			return found
		}
		l.Expect(fights("0")).To(BeTrue())
		l.Expect(fights("new")).To(BeFalse(), "there is no room")
		<-time.After(2 * calmPeriod)
		l.Expect(fights("new")).To(BeTrue(), "the others are calm")
		l.Expect(l.outputs).To(HaveKey(objectRef{0, Key{Namespace: "d", Name: "0"}}), "its reaction was delayed for longer")
		l.Expect(l.outputs).To(HaveLen(2))
	})
}

// Clients without a transport of package cluster report the answer alone, and
// the watch may be faster than that.
func TestAHotLoopIsFoundInReports(t *testing.T) {
	for name, c := range map[string]struct {
		cached func(n int) bool
		value  func(n int) string
		slowed int
	}{
		"a cached object": {func(int) bool { return true }, func(int) string { return "ours" }, 5},
		"a new value each time, after the watch": {
			func(int) bool { return false }, strconv.Itoa, 7,
		},
		"one that stays": {func(int) bool { return false }, func(int) string { return "ours" }, 0},
	} {
		inLoops(t, func(l *loopFixture) {
			first := 0
			l.wake("k")
			for n := range 20 {
				w := write{object: written(strconv.Itoa(n+1), c.value(n)), outcome: ownwrites.Written}
				l.version = n + 1
				if c.cached(n) {
					w.cached = written("before "+strconv.Itoa(n), "theirs")
				}
				if l.reconcile("k", w) > 0 && first == 0 {
					first = n + 1
				}
				l.event("k")
			}
			l.Expect(first).To(Equal(c.slowed), name)
		})
	}
}

func TestObjectsWithoutAUIDAreNoHotLoop(t *testing.T) {
	inLoops(t, func(l *loopFixture) {
		for range 20 {
			w := l.setting("ours")
			w.object.SetUID("")
			l.wake("k")
			l.Expect(l.reconcile("k", w)).To(BeZero())
		}
	})
}

// An answer of the server may have its kind although the cached object does not
// have it.
func TestTheKindIsNoChangedField(t *testing.T) {
	g := NewWithT(t)
	cached, answer := written("1", "x"), written("2", "x")
	answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	g.Expect(changes(cached, answer)).To(BeEmpty())
	answer.Data["v"] = "y"
	g.Expect(changes(cached, answer).paths()).To(Equal([]string{"data.v"}))
}

func TestAnAnswerIsDecodedAsWhatItIsComparedWith(t *testing.T) {
	g := NewWithT(t)
	object, err := answer.Read("application/json", []byte(
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"1"},"data":{"v":"y"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes(written("1", "x"), object).paths()).To(Equal([]string{"data.v"}))
	object.Unlabelled = true
	g.Expect(changes(written("1", "x"), object)).To(BeEmpty())
}
