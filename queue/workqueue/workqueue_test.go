package workqueue_test

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	clientgo "k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// These tests hold the adapter to what client-go's own tests ask of its queues.

type limited = clientgo.TypedRateLimitingInterface[string]

func adapted(t *testing.T, o *queue.Options[string], w *workqueue.Options[string]) limited {
	t.Helper()
	q, err := queue.New(o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return workqueue.New(q, w)
}

// shutDowns are the two ways to shut down.
var shutDowns = map[string]func(limited){
	"ShutDown":          limited.ShutDown,
	"ShutDownWithDrain": limited.ShutDownWithDrain,
}

// consume runs workers that handle keys until the queue is shut down.
func consume(q limited, workers int, handle func(key string)) *sync.WaitGroup {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				handle(key)
				q.Done(key)
			}
		})
	}
	return &running
}

func TestHandsKeysFromProducersToConsumers(t *testing.T) {
	for name, shutDown := range shutDowns {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				q := adapted(t, nil, nil)
				const producers, rounds = 50, 50
				var mu sync.Mutex
				holders, dispatches := map[string]int{}, map[string]int{}
				consumers := consume(q, 10, func(key string) {
					mu.Lock()
					holders[key]++
					dispatches[key]++
					g.Expect(holders[key]).To(Equal(1), "two workers hold %s", key)
					mu.Unlock()
					<-time.After(3 * time.Millisecond)
					mu.Lock()
					holders[key]--
					mu.Unlock()
				})
				var producing sync.WaitGroup
				for i := range producers {
					producing.Go(func() {
						for range rounds {
							q.Add(strconv.Itoa(i))
							<-time.After(time.Millisecond)
						}
					})
				}
				producing.Wait()
				shutDown(q)
				q.Add("too late")
				consumers.Wait()
				g.Expect(q.Len()).To(BeZero())
				g.Expect(dispatches).To(HaveLen(producers))
				g.Expect(dispatches).NotTo(HaveKey("too late"))
			})
		})
	}
}

func TestDispatchesAgainWhatIsAddedWhileHeld(t *testing.T) {
	for name, shutDown := range shutDowns {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				q := adapted(t, nil, nil)
				var mu sync.Mutex
				dispatches := map[string]int{}
				consumers := consume(q, 10, func(key string) {
					mu.Lock()
					dispatches[key]++
					again := dispatches[key] < 2
					mu.Unlock()
					if again {
						q.Add(key)
					}
				})
				for i := range 50 {
					q.Add(strconv.Itoa(i))
				}
				synctest.Wait()
				shutDown(q)
				consumers.Wait()
				g.Expect(q.Len()).To(BeZero())
				g.Expect(dispatches).To(HaveLen(50))
				g.Expect(dispatches).To(HaveEach(2))
			})
		})
	}
}

func TestCountsAKeyOnce(t *testing.T) {
	g := NewWithT(t)
	q := adapted(t, nil, nil)
	for _, step := range []struct {
		key    string
		length int
	}{{"a", 1}, {"b", 2}, {"a", 2}} {
		q.Add(step.key)
		g.Expect(q.Len()).To(Equal(step.length))
	}
}

func TestTakesBackAKeyThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		q := adapted(t, nil, nil)
		q.Add("a")
		key, shutdown := q.Get()
		g.Expect(key).To(Equal("a"))
		g.Expect(shutdown).To(BeFalse())
		q.Add("a")
		q.Add("a")
		g.Expect(q.Len()).To(BeZero())

		second := make(chan string, 1)
		go func() {
			key, _ := q.Get()
			second <- key
		}()
		synctest.Wait()
		g.Expect(second).NotTo(Receive(), "the key is held")
		q.Done("a")
		synctest.Wait()
		g.Expect(second).To(Receive(Equal("a")))
		q.Done("a")
		g.Expect(q.Len()).To(BeZero())
		q.Done("a")
		q.Done("never held")
		g.Expect(q.Len()).To(BeZero())
	})
}

// blocked starts f and returns a function that reports whether it still runs.
func blocked(f func()) func() bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
}

func TestShutDown(t *testing.T) {
	for name, f := range map[string]func(g *WithT, q limited){
		"with drain waits for what is held": func(g *WithT, q limited) {
			waits := blocked(q.ShutDownWithDrain)
			g.Expect(waits()).To(BeTrue())
			_, shutdown := q.Get()
			g.Expect(shutdown).To(BeTrue())
			q.Done("a")
			g.Expect(waits()).To(BeTrue())
			q.Done("b")
			g.Expect(waits()).To(BeFalse())
		},
		"without drain waits for nothing": func(g *WithT, q limited) {
			g.Expect(blocked(q.ShutDown)()).To(BeFalse())
			g.Expect(q.ShuttingDown()).To(BeTrue())
		},
		"without drain ends one with drain": func(g *WithT, q limited) {
			waits, alsoWaits := blocked(q.ShutDownWithDrain), blocked(q.ShutDownWithDrain)
			g.Expect(waits()).To(BeTrue())
			q.ShutDown()
			g.Expect(waits()).To(BeFalse())
			g.Expect(alsoWaits()).To(BeFalse())
		},
		"with drain waits for what was added while held": func(g *WithT, q limited) {
			q.Add("a")
			waits := blocked(q.ShutDownWithDrain)
			q.Done("b")
			g.Expect(waits()).To(BeTrue())
			_, shutdown := q.Get()
			g.Expect(shutdown).To(BeTrue(), "nothing waits while a is held")
			q.Done("a")
			g.Expect(waits()).To(BeTrue())
			key, shutdown := q.Get()
			g.Expect(shutdown).To(BeFalse())
			g.Expect(key).To(Equal("a"))
			q.Done("a")
			_, shutdown = q.Get()
			g.Expect(shutdown).To(BeTrue())
			g.Expect(waits()).To(BeFalse())
		},
		"drops what is added later, at once or with delay": func(g *WithT, q limited) {
			q.ShutDown()
			q.Add("c")
			q.AddAfter("c", time.Nanosecond)
			q.AddAfter("c", 0)
			q.AddRateLimited("c")
			<-time.After(time.Hour)
			g.Expect(q.Len()).To(BeZero())
			g.Expect(q.NumRequeues("c")).To(BeZero())
		},
		"of an empty queue with drain returns at once": func(g *WithT, q limited) {
			q.Done("a")
			q.Done("b")
			g.Expect(blocked(q.ShutDownWithDrain)()).To(BeFalse())
			g.Expect(blocked(q.ShutDownWithDrain)()).To(BeFalse())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := adapted(t, nil, nil)
				q.Add("a")
				q.Add("b")
				q.Get()
				q.Get()
				f(NewWithT(t), q)
			})
		})
	}
}

func TestDoesNotKeepKeysAlive(t *testing.T) {
	type big [1 << 10]byte
	q, err := queue.New[*big](nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := workqueue.New(q, nil)
	collected := make(chan struct{})
	func() {
		key := new(big)
		runtime.AddCleanup(key, func(c chan struct{}) { close(c) }, collected)
		w.Add(key)
		got, _ := w.Get()
		w.Done(got)
	}()
	NewWithT(t).Eventually(func() <-chan struct{} {
		runtime.GC()
		return collected
	}, time.Minute).Should(BeClosed())
	runtime.KeepAlive(w)
}

func TestDelaysByAFakeClock(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		pass time.Duration
		want []string
	}
	for name, c := range map[string]struct {
		add   func(q limited)
		steps []step
	}{
		"a key comes once, after its delay": {
			func(q limited) { q.AddAfter("a", 50*ms) },
			[]step{{49 * ms, nil}, {11 * ms, []string{"a"}}, {10 * time.Second, nil}},
		},
		"of two delays the shorter counts, even if it came first": {
			func(q limited) { q.AddAfter("a", 50*ms); q.AddAfter("a", 70*ms) },
			[]step{{60 * ms, []string{"a"}}, {20 * ms, nil}},
		},
		"of two delays the shorter counts, even if it came last": {
			func(q limited) { q.AddAfter("a", 50*ms); q.AddAfter("a", 30*ms) },
			[]step{{40 * ms, []string{"a"}}, {20 * ms, nil}},
		},
		"keys come by their time, not by their order": {
			func(q limited) { q.AddAfter("a", 1000*ms); q.AddAfter("b", 500*ms); q.AddAfter("c", 250*ms) },
			[]step{{100 * ms, nil}, {1900 * ms, []string{"c", "b", "a"}}},
		},
		"each comes as soon as its time has come": {
			func(q limited) { q.AddAfter("a", 1000*ms); q.AddAfter("b", 50*ms) },
			[]step{{60 * ms, []string{"b"}}, {1000 * ms, []string{"a"}}},
		},
		"no delay is none": {
			func(q limited) { q.AddAfter("a", 0); q.AddAfter("b", -ms) },
			[]step{{0, []string{"a", "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fake := testingclock.NewFakeClock(time.Now())
			q := adapted(t, &queue.Options[string]{Clock: fake}, nil)
			c.add(q)
			for _, s := range c.steps {
				fake.Step(s.pass)
				var got []string
				for q.Len() > 0 {
					key, _ := q.Get()
					got = append(got, key)
					q.Done(key)
				}
				g.Expect(got).To(Equal(s.want))
			}
		})
	}
}

func TestWakesAWorkerByAFakeClock(t *testing.T) {
	g := NewWithT(t)
	fake := testingclock.NewFakeClock(time.Now())
	q := adapted(t, &queue.Options[string]{Clock: fake}, nil)
	for round := range 5 {
		key := strconv.Itoa(round)
		q.AddAfter(key, time.Minute)
		got := make(chan string, 1)
		go func() {
			key, _ := q.Get()
			got <- key
			q.Done(key)
		}()
		g.Eventually(fake.HasWaiters, time.Minute).Should(BeTrue())
		fake.Step(time.Minute)
		g.Eventually(got, time.Minute).Should(Receive(Equal(key)))
		g.Eventually(fake.HasWaiters, time.Minute).Should(BeFalse())
	}
}

func TestLimitsRates(t *testing.T) {
	t.Cleanup(simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 0 }}))
	o := &queue.Options[string]{Backoff: queue.Backoff{Base: time.Second, Cap: 5 * time.Second}}
	limiter := clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 5*time.Second)
	for name, w := range map[string]*workqueue.Options[string]{
		"by the queue's back-off": nil, "by a given limiter": {RateLimiter: limiter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				q := adapted(t, o, w)
				attempt := func(key string, want time.Duration) {
					t.Helper()
					before := time.Now()
					q.AddRateLimited(key)
					got, _ := q.Get()
					g.Expect(got).To(Equal(key))
					g.Expect(time.Since(before)).To(Equal(want))
					q.Done(key)
				}
				attempt("one", time.Second)
				attempt("one", 2*time.Second)
				g.Expect(q.NumRequeues("one")).To(Equal(2))
				attempt("two", time.Second)
				attempt("two", 2*time.Second)
				attempt("one", 4*time.Second)
				attempt("one", 5*time.Second)
				q.Forget("one")
				g.Expect(q.NumRequeues("one")).To(BeZero())
				g.Expect(q.NumRequeues("two")).To(Equal(2))
				attempt("one", time.Second)

				q.AddRateLimited("one")
				q.Add("one")
				g.Expect(q.Len()).To(Equal(1), "Add breaks through")
				g.Expect(q.NumRequeues("one")).To(Equal(2), "and does not forget")
				q.Get()
				q.AddRateLimited("one")
				q.Forget("one")
				q.Done("one")
				q.Forget("two")
				g.Expect(q.Len()).To(BeZero(), "Forget does not bring a retry forward")
				q.Get()
				q.Done("one")
				<-time.After(24 * time.Hour)
				g.Expect(q.Len()).To(BeZero())
			})
		})
	}
}
