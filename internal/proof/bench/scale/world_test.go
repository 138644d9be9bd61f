package scale_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"github.com/homeostat/homeostat/reconcile"
)

// world is replicas on one simulated server, and which of them works on which
// slot.
type world struct {
	*WithT
	setting

	t *testing.T

	records *apisim.Server
	weights map[string]int // objects by namespace
	traffic *traffic

	mu      sync.Mutex // guards the fields below
	members map[string]*member
	owners  []string // by slot
	last    []string // that each slot has had
	changed time.Time
	faults  []string
}

// member is a replica.
type member struct {
	reconcile.Shards

	world  *world
	name   string
	cancel context.CancelFunc
	dead   chan struct{} // closed when it is killed
	ended  chan error
}

func newWorld(t *testing.T, s setting) *world {
	records, err := apisim.New(nil)
	w := &world{
		WithT: NewWithT(t), t: t, setting: s, records: records, weights: weights(), traffic: &traffic{},
		members: map[string]*member{}, owners: make([]string, s.slots), last: make([]string, s.slots),
	}
	w.Expect(err).NotTo(HaveOccurred())
	return w
}

// join starts a replica, which does nothing but own its slots.
func (w *world) join(name string) {
	m := &member{world: w, name: name, dead: make(chan struct{}), ended: make(chan error, 1)}
	config := w.records.Config(name)
	config.Wrap(m.link)
	client, err := kubernetes.NewForConfig(config)
	w.Expect(err).NotTo(HaveOccurred())
	lease := leader.Lease{Client: client.CoordinationV1(), Namespace: "default", Name: "scale", Identity: name}
	o := &shard.Options{Slots: w.slots}
	if w.ranges {
		m.Shards, err = ranges.New(lease, o)
	} else {
		m.Shards, err = shard.New(lease, o)
	}
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(logr.NewContext(w.t.Context(), logr.Discard()))
	m.cancel = cancel
	w.mu.Lock()
	w.members[name] = m
	w.mu.Unlock()
	go func() { m.ended <- m.run(ctx) }()
}

func (m *member) run(ctx context.Context) error {
	of := m.Shards.(interface{ Parts() slots.Handover })
	if ranges, ok := of.Parts().(slots.Ranger); ok {
		if err := ranges.Divide(ctx, []slots.Cache{tally{weights: m.world.weights}}); err != nil {
			return err
		}
	}
	return m.Run(ctx, m.work)
}

// tally is a cache that only knows the number of its objects.
type tally struct {
	slots.Cache

	weights map[string]int
}

func (t tally) SeenResourceVersion() string { return "1" }

func (t tally) CountNamespaces(context.Context) (map[string]int, error) { return t.weights, nil }

func (m *member) link(next http.RoundTripper) http.RoundTripper { return &link{next, m.world, m.dead} }

// work owns a slot until its context ends, and for the drain after.
func (m *member) work(ctx context.Context, slot int) error {
	m.world.own(m, slot)
	defer m.world.leave(m, slot)
	select {
	case <-m.dead:
	case <-ctx.Done():
		<-time.After(draining)
	}
	return nil
}

func (w *world) own(m *member, slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.owners[slot]; other != "" {
		w.faults = append(w.faults, fmt.Sprintf("slot %d is with %s and %s", slot, other, m.name))
	}
	w.owners[slot], w.last[slot], w.changed = m.name, m.name, time.Now()
}

func (w *world) leave(m *member, slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owners[slot] == m.name {
		w.owners[slot] = ""
	}
}

// kill is kill -9: no further request of the replica reaches the server.
func (w *world) kill(name string) {
	w.mu.Lock()
	m := w.members[name]
	delete(w.members, name)
	close(m.dead)
	for slot, owner := range w.owners {
		if owner == name {
			w.owners[slot] = ""
		}
	}
	w.mu.Unlock()
	w.records.Fence(name)
	m.cancel()
	<-m.ended
}

// stop ends all replicas.
func (w *world) stop() {
	for _, m := range w.members {
		m.cancel()
	}
	for _, m := range w.members {
		w.Expect(<-m.ended).To(Succeed())
	}
}

// disturb does something and waits until no slot has changed its owner for a
// while.
func (w *world) disturb(do func()) phase {
	w.mu.Lock()
	before := slices.Clone(w.last)
	w.mu.Unlock()
	w.traffic.take()
	began := time.Now()
	do()
	p := phase{}
	w.await(func() bool { return !slices.Contains(w.owners, "") })
	p.owned = time.Since(began)
	w.await(func() bool { return time.Since(began) >= quiet && time.Since(w.changed) >= quiet })
	p.traffic = w.traffic.take()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.owners).NotTo(ContainElement(""))
	p.balanced = w.changed.Sub(began)
	w.judge(&p, before)
	return p
}

// await returns when condition is true, which is called with the lock.
func (w *world) await(condition func() bool) {
	for w.t.Context().Err() == nil {
		w.mu.Lock()
		met := condition()
		w.mu.Unlock()
		if met {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// judge compares the owners with those before. The lock is held.
func (w *world) judge(p *phase, before []string) {
	of := make([]int, w.slots)
	first := slices.Collect(maps.Values(w.members))[0] // all have the same
	for namespace, weight := range w.weights {
		of[first.Slot(types.NamespacedName{Namespace: namespace})] += weight
	}
	load := map[string]int{}
	for slot, owner := range w.owners {
		load[owner] += of[slot]
		if before[slot] != owner {
			p.moved++
			p.movedObjects += float64(of[slot]) / objects
		}
	}
	mean := objects / float64(len(w.members))
	p.heaviest, p.lightest = 0, 1
	for name := range w.members {
		p.heaviest, p.lightest = max(p.heaviest, float64(load[name])/mean), min(p.lightest, float64(load[name])/mean)
	}
}

// recordsSize returns how many KiB the records have as JSON.
func (w *world) recordsSize() float64 {
	size := 0
	for _, o := range w.records.Objects(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}) {
		text, err := json.Marshal(o)
		w.Expect(err).NotTo(HaveOccurred())
		size += len(text)
	}
	return float64(size) / 1024
}

// messages are counts; received is in bytes.
type messages struct{ requests, events, received int }

// part returns the part of one of n replicas.
func (m messages) part(n int) messages {
	return messages{m.requests / n, m.events / n, m.received / n}
}

// traffic counts the messages of all replicas.
type traffic struct {
	mu     sync.Mutex
	counts messages // mu guards it
}

func (t *traffic) count(m messages) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.requests += m.requests
	t.counts.events += m.events
	t.counts.received += m.received
}

// take returns the counts, and resets them.
func (t *traffic) take() messages {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.counts
	t.counts = messages{}
	return taken
}

// link is a replica's way to a server.
type link struct {
	next  http.RoundTripper
	world *world
	dead  chan struct{}
}

var errDead = errors.New("the replica is dead")

func (l *link) RoundTrip(req *http.Request) (*http.Response, error) {
	l.world.traffic.count(messages{requests: 1})
	<-time.After(roundTrip / 2)
	select {
	case <-l.dead:
		return nil, errDead
	default:
	}
	answer, err := l.next.RoundTrip(req)
	if err == nil {
		answer.Body = &counted{answer.Body, l.world.traffic, req.URL.Query().Get("watch") != ""}
	}
	<-time.After(roundTrip / 2)
	return answer, err
}

// counted is the body of an answer.
type counted struct {
	io.ReadCloser

	traffic *traffic
	events  bool // it has one a line
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	of := messages{received: n}
	if c.events {
		for _, b := range p[:n] {
			if b == '\n' {
				of.events++
			}
		}
	}
	c.traffic.count(of)
	return n, err
}
