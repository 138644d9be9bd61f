package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// A model is a simple implementation of what a queue promises, without regard
// to speed: it searches a map of all keys at each step.
type model struct {
	now      time.Duration
	interval time.Duration
	backoff  queue.Backoff
	drained  bool
	stopped  bool
	keys     map[string]*modelKey
	passed   map[queue.Lane]int
}

type modelKey struct {
	held, reset         bool
	asked               string // "", "timer" or "now"
	due                 time.Duration
	lane                queue.Lane
	backoff, hold, rest time.Duration
	later               time.Duration // a delayed addition by the adapter; 0: none
	failures            int
	notOwn, ownTimer    bool
	retried             bool
}

func newModel(o *queue.Options[string]) *model {
	return &model{
		interval: o.MinInterval, backoff: o.Backoff,
		keys: map[string]*modelKey{}, passed: map[queue.Lane]int{},
	}
}

func (m *model) key(k string) *modelKey {
	if m.keys[k] == nil {
		m.keys[k] = &modelKey{}
	}
	return m.keys[k]
}

// ready reports whether k may be dispatched now.
func (m *model) ready(k *modelKey) bool {
	return !k.held && k.asked != "" && m.when(k) <= m.now
}

// when is the earliest time at which k, if it is not held, may be dispatched.
func (m *model) when(k *modelKey) time.Duration { return max(k.due, k.backoff, k.hold, k.rest) }

func (m *model) add(name string, a queue.AddOptions) {
	if m.drained || m.stopped {
		return
	}
	k := m.key(name)
	waits := m.ready(k)
	if a.ResetBackoff {
		k.retried = k.retried && k.backoff <= m.now
		k.failures, k.backoff = 0, 0
		k.reset = k.reset || k.held
	}
	if waits {
		k.lane = min(k.lane, a.Lane)
		k.notOwn = k.notOwn || a.After <= 0 && !a.Own
		return
	}
	m.ask(k, a)
}

func (m *model) ask(k *modelKey, a queue.AddOptions) {
	if k.asked == "" {
		k.lane = a.Lane
	} else if k.backoff <= m.now {
		k.lane = min(k.lane, a.Lane)
	}
	due := m.now + max(a.After, 0)
	switch {
	case a.After <= 0:
		k.notOwn = k.notOwn || !a.Own || k.asked == "timer" && k.due <= m.now && !k.ownTimer
		if k.asked != "now" {
			k.asked, k.due = "now", due
		}
	case k.asked == "now":
	case k.asked == "" || a.Replace || due < k.due:
		k.asked, k.due, k.ownTimer, k.retried = "timer", due, a.Own, k.retried && !a.Replace
	}
}

func (m *model) cancel(name string) bool {
	k := m.key(name)
	dropped := k.later != 0
	k.later = 0
	if k.asked != "timer" || m.ready(k) {
		return dropped
	}
	k.asked, k.due, k.notOwn, k.retried = "", 0, false, false
	return true
}

// forget also ends a back-off for which no addition waits.
func (m *model) forget(name string) {
	k := m.key(name)
	k.failures = 0
	if !k.held && k.asked == "" {
		k.backoff = 0
	}
}

// reopen forgets all failures, and makes retries due.
func (m *model) reopen() {
	if m.drained || m.stopped {
		return
	}
	for _, k := range m.keys {
		if k.failures == 0 {
			continue
		}
		k.failures, k.backoff = 0, 0
		if !k.held && k.asked == "timer" {
			k.due = m.now
		}
	}
}

// addLater is a delayed addition by the adapter. Only an earlier delayed
// addition by the adapter replaces it.
func (m *model) addLater(name string, d time.Duration) {
	k := m.key(name)
	if due := m.now + d; !m.drained && !m.stopped && (k.later == 0 || due < k.later) {
		k.later = due
	}
}

// pass lets d pass, and makes the delayed additions that become due, one after
// the other.
func (m *model) pass(d time.Duration) {
	end := m.now + d
	for {
		first := ""
		for name, k := range m.keys {
			if k.later != 0 && k.later <= end && (first == "" || k.later < m.keys[first].later) {
				first = name
			}
		}
		if first == "" {
			break
		}
		m.now, m.keys[first].later = m.keys[first].later, 0
		m.add(first, queue.AddOptions{})
	}
	m.now = end
}

// take reports whether all that led to the dispatch was own.
func (m *model) take(name string) (own bool) {
	k := m.key(name)
	own = !k.notOwn && !k.retried && (k.asked == "now" || k.ownTimer)
	k.held, k.asked, k.due, k.reset, k.notOwn, k.retried = true, "", 0, false, false, false
	if m.interval > 0 {
		k.rest = m.now + m.interval
	}
	return own
}

func (m *model) discount(name string) {
	if k := m.key(name); k.held {
		k.rest = 0
	}
}

func (m *model) fail(k *modelKey, delay time.Duration, drawn bool) {
	if k.reset {
		k.failures, k.backoff = 0, 0
		if k.asked == "now" {
			return
		}
	}
	k.failures++
	if drawn {
		delay = min(m.backoff.Cap, m.backoff.Base<<(k.failures-1)) / 2
	}
	k.backoff, k.retried = m.now+max(delay, 0), true
	if k.asked != "now" {
		k.asked, k.due, k.ownTimer = "timer", k.backoff, false
	}
	k.lane = queue.Retrying
}

func (m *model) end(name, how string, d time.Duration) {
	k := m.key(name)
	k.held = false
	switch how {
	case "done":
		k.failures, k.backoff = 0, 0
	case "after":
		k.failures, k.backoff = 0, 0
		m.ask(k, queue.AddOptions{Lane: queue.Retrying, After: d})
	case "retry":
		m.fail(k, 0, true)
	case "retryAfter":
		m.fail(k, d, false)
	}
	if m.stopped || m.drained && k.asked != "now" {
		delete(m.keys, name)
	}
}

func (m *model) drain() {
	if m.stopped {
		return
	}
	m.drained = true
	for name, k := range m.keys {
		k.later = 0
		if !k.held && !m.ready(k) && k.asked != "now" {
			delete(m.keys, name)
		}
	}
}

func (m *model) stop() {
	m.stopped = true
	for name, k := range m.keys {
		k.later = 0
		if !k.held {
			delete(m.keys, name)
		}
	}
}

// depths counts the keys that are ready, by lane.
func (m *model) depths() map[queue.Lane]int {
	depths := map[queue.Lane]int{}
	for _, k := range m.keys {
		if m.ready(k) {
			depths[k.lane]++
		}
	}
	return depths
}

// A comparison drives a queue and its model by the same operations.
type comparison struct {
	*WithT
	ctx   context.Context
	clock *testingclock.FakeClock
	queue *queue.Queue[string]
	model *model
	held  []queue.Item[string]
	later int
}

func newComparison(t testing.TB, interval time.Duration) *comparison {
	fake := testingclock.NewFakeClock(time.Now())
	defer simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 0.5 }})()
	o := &queue.Options[string]{
		Clock: fake, MinInterval: interval,
		Backoff: queue.Backoff{Base: 4 * time.Second, Cap: 30 * time.Second},
	}
	q, err := queue.New(o)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	return &comparison{WithT: g, ctx: ended, clock: fake, queue: q, model: newModel(o)}
}

// step does one operation, chosen by two bytes, in both, and compares.
func (c *comparison) step(op, arg byte) {
	name := fmt.Sprintf("key-%d", arg%7)
	d := time.Duration(arg>>3) * time.Second / 2
	switch op % 16 {
	case 0, 1, 2, 3:
		a := queue.AddOptions{Lane: queue.Lane(arg % 3), ResetBackoff: arg%5 == 0, Replace: arg%11 == 0, Own: arg%3 > 0}
		if op%2 == 0 {
			a.After = d
		}
		c.queue.AddWithOptions(name, a)
		c.model.add(name, a)
	case 4, 5, 6, 7:
		c.get()
	case 8, 9, 10, 11:
		c.end(int(arg), op, d)
	case 12:
		c.clock.Step(d)
		c.model.pass(d)
	case 13:
		c.Expect(c.queue.Cancel(name)).To(Equal(c.model.cancel(name)))
	case 14:
		c.queue.Release(name)
		c.model.key(name).hold = 0
	case 15:
		c.rarely(arg, name)
	}
	c.compare()
}

func (c *comparison) rarely(arg byte, name string) {
	switch {
	case arg == 255:
		c.queue.Stop()
		c.model.stop()
	case arg > 250:
		c.queue.Drain()
		c.model.drain()
	case arg%16 == 3:
		c.queue.Parts().Discount(name)
		c.model.discount(name)
	case arg%16 == 1:
		c.queue.Parts().Reopen()
		c.model.reopen()
	case arg%2 == 0 && arg>>3 > 0:
		d := time.Duration(arg>>3)*time.Second/2 + time.Duration(c.later)
		c.later++ // no two end at once
		workqueue.New(c.queue, nil).AddAfter(name, d)
		c.model.addLater(name, d)
	default:
		c.queue.Forget(name)
		c.model.forget(name)
	}
}

// get takes a key if one waits, which must be one that the model would give.
func (c *comparison) get() {
	depths := c.model.depths()
	if len(depths) == 0 {
		return
	}
	item, err := c.queue.Get(context.WithoutCancel(c.ctx))
	c.Expect(err).NotTo(HaveOccurred())
	k := c.model.key(item.Key())
	c.Expect(c.model.ready(k)).To(BeTrue(), "%s is not ready", item.Key())
	c.Expect(item.Attempt()).To(Equal(k.failures + 1))
	for l, share := range map[queue.Lane]int{
		queue.Normal: 1 << 30, queue.Retrying: retryingShare, queue.Background: backgroundShare,
	} {
		if c.model.passed[l]++; l == k.lane || depths[l] == 0 {
			c.model.passed[l] = 0
		}
		c.Expect(c.model.passed[l]).To(BeNumerically("<", share))
	}
	c.Expect(item.Own()).To(Equal(c.model.take(item.Key())))
	c.held = append(c.held, item)
}

// end ends one of the held items, perhaps after a hold.
func (c *comparison) end(which int, op byte, d time.Duration) {
	if len(c.held) == 0 {
		return
	}
	i := which % len(c.held)
	item := c.held[i]
	c.held = append(c.held[:i], c.held[i+1:]...)
	if which%4 == 0 {
		item.Hold(d)
		c.model.key(item.Key()).hold = c.model.now + d
	}
	switch op % 4 {
	case 0:
		item.Done()
		c.model.end(item.Key(), "done", 0)
	case 1:
		item.After(d)
		c.model.end(item.Key(), "after", d)
	case 2:
		item.Retry()
		c.model.end(item.Key(), "retry", 0)
	case 3:
		item.RetryAfter(d)
		c.model.end(item.Key(), "retryAfter", d)
	}
	item.Done() // is ignored
}

// compare checks that the queue and the model agree on every key.
func (c *comparison) compare() {
	type view struct {
		state    queue.State
		lane     queue.Lane
		failures int
		next     time.Duration
		backing  bool
	}
	want, got := map[string]view{}, map[string]view{}
	for name, k := range c.model.keys {
		switch {
		case k.held:
			want[name] = view{state: queue.Held}
		case c.model.ready(k):
			want[name] = view{state: queue.Waiting, lane: k.lane, failures: k.failures}
		case k.asked != "":
			next := c.model.when(k)
			want[name] = view{queue.Delayed, k.lane, k.failures, next - c.model.now, next == k.backoff}
		case k.later != 0:
			want[name] = view{queue.Delayed, queue.Normal, k.failures, max(k.later, c.model.when(k)) - c.model.now, false}
		}
	}
	delayed := 0
	for _, v := range want {
		if v.state == queue.Delayed {
			delayed++
		}
	}
	c.Expect(c.queue.Stats().Delayed).To(Equal(delayed))
	backing := 0
	for _, e := range c.queue.Entries(100) {
		v := view{state: e.State, backing: e.BackingOff}
		if e.BackingOff {
			backing++
		}
		if e.State != queue.Held {
			v.lane, v.failures = e.Lane, e.Failures
		}
		if e.State == queue.Delayed {
			v.next = e.Next.Sub(c.clock.Now())
		}
		got[e.Key] = v
	}
	c.Expect(got).To(Equal(want))
	c.Expect(c.queue.Stats().BackingOff).To(Equal(backing))
	failing := 0
	for _, k := range c.model.keys {
		failing += min(k.failures, 1)
	}
	c.Expect(c.queue.Stats().Failing).To(Equal(failing))
	ready := 0
	for l, depth := range c.model.depths() {
		c.Expect(c.queue.Stats().Lanes[l].Depth).To(Equal(depth))
		ready += depth
	}
	c.Expect(c.queue.Len()).To(Equal(ready))
}

func TestQueueDoesWhatItsModelDoes(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newComparison(t, time.Duration(seed%3)*3*time.Second)
			random := rand.New(rand.NewPCG(seed, 0))
			for range 400 {
				op := byte(random.Uint32())
				if op%16 == 15 && seed%4 != 0 {
					continue // drains and stops end the story early
				}
				c.step(op, byte(random.Uint32()))
			}
		})
	}
}

func FuzzQueueDoesWhatItsModelDoes(f *testing.F) {
	f.Add(byte(0), []byte{1, 3, 4, 0, 10, 0, 0, 200, 12, 255})
	f.Add(byte(6), []byte{1, 8, 4, 0, 1, 8, 8, 12, 14, 8, 12, 80, 4, 0})
	f.Fuzz(func(t *testing.T, interval byte, ops []byte) {
		const most = 400
		c := newComparison(t, time.Duration(interval)*time.Second/2)
		for i := 0; i+1 < min(len(ops), most); i += 2 {
			c.step(ops[i], ops[i+1])
		}
	})
}
