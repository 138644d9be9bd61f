package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// rivals are our adapter and client-go's queue, driven by the same operations.
type rivals struct {
	*WithT
	both   [2]limited // ours first
	gauges [2]*gauges
	held   []string
	log    []string
}

// inRivalry runs f in a bubble of virtual time. Both back off from 10 ms to 1
// s.
func inRivalry(t *testing.T, f func(r *rivals)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const base, most = 10 * time.Millisecond, time.Second
		r := &rivals{WithT: NewWithT(t), gauges: [2]*gauges{{}, {}}}
		defer simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 0 }})()
		r.both[0] = adapted(t, &queue.Options[string]{
			Backoff: queue.Backoff{Base: base, Cap: most},
		}, &workqueue.Options[string]{Metrics: r.gauges[0]})
		r.both[1] = clientgo.NewTypedRateLimitingQueueWithConfig(
			clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, most),
			clientgo.TypedRateLimitingQueueConfig[string]{Name: "rival", MetricsProvider: r.gauges[1]})
		defer func() {
			for _, q := range r.both {
				q.ShutDown()
			}
		}()
		f(r)
	})
}

// do calls f for both queues, a microsecond after the previous call, so that no
// two timers end at once.
func (r *rivals) do(what string, f func(q limited)) {
	<-time.After(time.Microsecond)
	r.log = append(r.log, what)
	for _, q := range r.both {
		f(q)
	}
	synctest.Wait()
	r.compare()
	if !strings.HasPrefix(what, "forget") { // a key whose delay is over is counted with the next operation of ours
		r.compareMetrics()
	}
}

func (r *rivals) compare() {
	ours, theirs := r.both[0], r.both[1]
	r.Expect(ours.Len()).To(Equal(theirs.Len()), "%v", r.log)
	r.Expect(ours.ShuttingDown()).To(Equal(theirs.ShuttingDown()))
	if ours.ShuttingDown() {
		return // ours forgets the failures of keys that are done then
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		r.Expect(ours.NumRequeues(key)).To(Equal(theirs.NumRequeues(key)), "%v", r.log)
	}
}

func (r *rivals) compareMetrics() {
	mine, other := r.gauges[0], r.gauges[1]
	r.Expect(mine.retry.get()).To(Equal(other.retry.get()), "retries after %v", r.log)
	r.Expect(mine.adds.get()).To(Equal(other.adds.get()), "adds after %v", r.log)
	r.Expect(mine.depth.get()).To(Equal(other.depth.get()), "depth after %v", r.log)
	r.Expect(mine.latency.seen).To(Equal(other.latency.seen), "latencies after %v", r.log)
	r.Expect(mine.duration.seen).To(Equal(other.duration.seen), "durations after %v", r.log)
}

// get takes the next key of both, which must be the same.
func (r *rivals) get() {
	if r.both[1].Len() == 0 {
		return
	}
	var keys []string
	r.do("get", func(q limited) {
		key, shutdown := q.Get()
		r.Expect(shutdown).To(BeFalse())
		keys = append(keys, key)
	})
	r.Expect(keys[0]).To(Equal(keys[1]), "%v", r.log)
	r.held = append(r.held, keys[0])
}

func (r *rivals) done(which int) {
	if len(r.held) == 0 {
		return
	}
	which %= len(r.held)
	key := r.held[which]
	r.held = append(r.held[:which], r.held[which+1:]...)
	r.do("done "+key, func(q limited) { q.Done(key) })
}

func (r *rivals) pass(d time.Duration) {
	r.log = append(r.log, fmt.Sprint("pass ", d))
	<-time.After(d + time.Microsecond)
	synctest.Wait()
	r.compare()
}

func (r *rivals) step(random *rand.Rand) {
	key := string('a' + rune(random.IntN(4)))
	d := time.Duration(random.IntN(50)) * time.Millisecond
	switch random.IntN(12) {
	case 0, 1:
		r.do("add "+key, func(q limited) { q.Add(key) })
	case 2, 3:
		r.do(fmt.Sprintf("add %s after %v", key, d), func(q limited) { q.AddAfter(key, d) })
	case 4, 5:
		r.do("add rate-limited "+key, func(q limited) { q.AddRateLimited(key) })
	case 6:
		r.do("forget "+key, func(q limited) { q.Forget(key) })
	case 7, 8:
		r.get()
	case 9, 10:
		r.done(random.IntN(4))
	case 11:
		r.pass(d)
	}
}

func TestDoesWhatClientGoDoes(t *testing.T) {
	for seed := range uint64(200) {
		inRivalry(t, func(r *rivals) {
			random := rand.New(rand.NewPCG(seed, 4))
			for range 150 {
				r.step(random)
			}
			r.do("shut down", limited.ShutDown)
			for range 20 {
				r.get()
				r.done(0)
				r.pass(time.Second)
			}
			r.Expect(r.both[0].Len()).To(BeZero())
		})
	}
}

func dispatchesForEach(t *testing.T) {
	for name, both := range map[string]func(q limited){
		"the delayed one first": func(q limited) { q.AddAfter("a", time.Second); q.Add("a") },
		"the delayed one last":  func(q limited) { q.Add("a"); q.AddAfter("a", time.Second) },
		"the delayed one while the key is held": func(q limited) {
			q.Add("a")
			q.Get()
			q.AddAfter("a", time.Second)
			q.Add("a")
			q.Done("a")
		},
		"a failure and an addition": func(q limited) { q.AddRateLimited("a"); q.Add("a") },
	} {
		t.Run(name, func(t *testing.T) {
			inRivalry(t, func(r *rivals) {
				r.do(name, both)
				for range 2 {
					r.Expect(r.both[0].Len()).To(Equal(1))
					r.get()
					r.done(0)
					r.pass(time.Second)
				}
				r.Expect(r.both[0].Len()).To(BeZero())
			})
		})
	}
}

// The gauges of unfinished work keep their last value after the shutdown,
// although a key is still held.
func TestGaugesStopWithTheQueue(t *testing.T) {
	for name, shutDown := range map[string]func(limited){
		"ShutDown":          limited.ShutDown,
		"ShutDownWithDrain": func(q limited) { go q.ShutDownWithDrain() },
	} {
		t.Run(name, func(t *testing.T) {
			inRivalry(t, func(r *rivals) {
				r.do("add", func(q limited) { q.Add("a") })
				r.get()
				r.pass(2 * time.Second)
				var before [2]float64
				for i, m := range r.gauges {
					before[i] = m.unfinished.get()
					r.Expect(before[i]).To(BeNumerically(">", 1))
				}
				r.do("shut down", shutDown)
				r.pass(time.Minute)
				for i, m := range r.gauges {
					r.Expect(m.unfinished.get()).To(Equal(before[i]))
					r.Expect(m.longest.get()).To(Equal(before[i]))
				}
				r.done(0)
				r.pass(time.Minute)
			})
		})
	}
}
