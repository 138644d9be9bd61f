package shard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

// fixture is an API for leases, a record of events in order, and the owners of the
// slots, in a bubble of virtual time.
type fixture struct {
	*WithT
	*diary
	*owners

	t   *testing.T
	api *leaseapi.API
}

// inBubble runs f, after which no slot may have had two owners at once.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{WithT: NewWithT(t), diary: &diary{}, owners: newOwners(), t: t, api: leaseapi.New(t)}
		f(x)
		x.Expect(x.fault).To(BeEmpty())
	})
}

// run runs f until stop is called, which wants it to have no error.
func (x *fixture) run(f func(context.Context) error) (stop func()) {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	wait := background(func() error { return f(ctx) })
	return func() {
		x.t.Helper()
		cancel()
		x.Expect(wait()).To(Succeed())
	}
}

// released wants the lease to have no holder, and returns it.
func (x *fixture) released(name string) *coordinationv1.Lease {
	x.t.Helper()
	l, err := x.api.Get(name)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(l.Spec.HolderIdentity).To(BeNil())
	return l
}

// free reports whether a record has no holder.
func (x *fixture) free(name string) bool {
	x.t.Helper()
	l, err := x.api.Get(name)
	x.Expect(err).NotTo(HaveOccurred())
	return l.Spec.HolderIdentity == nil
}

var errDead = errors.New("dead")

// A shardReplica is one that runs. The fixture knows which slots are its.
type shardReplica struct {
	*shard.Shards
	fixture *fixture
	link    *leaseapi.Link
	logs    diary
	stop    context.CancelFunc
	wait    func() error
}

func (x *fixture) shards(identity string, o *shard.Options) *shardReplica {
	x.t.Helper()
	l := x.api.Link(int64(len(identity)))
	r := &shardReplica{Shards: newShards(x.t, l, identity, o), fixture: x, link: l}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(x.t.Context())
	r.wait = background(func() error { return r.Run(r.logs.log(ctx), x.work(identity, time.Second)) })
	return r
}

func (r *shardReplica) end() {
	r.fixture.t.Helper()
	r.stop()
	r.fixture.Expect(r.wait()).To(Succeed())
}

// die is kill -9: no further request of the replica reaches the API.
func (r *shardReplica) die() {
	r.link.Set(func(l *leaseapi.Link) { l.Fail = errDead })
	r.stop()
	_ = r.wait()
}

// owners records the owner of each slot, as the functions of the slots see it.
type owners struct {
	mu    sync.Mutex
	slots map[int]string
	takes map[int]int
	moves int // how often a slot got another owner than the last
	last  map[int]string
	fault string
}

func newOwners() *owners {
	return &owners{slots: map[int]string{}, last: map[int]string{}, takes: map[int]int{}}
}

func (o *owners) take(slot int, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.slots[slot]; other != "" {
		o.fault = fmt.Sprintf("slot %d is with %s and %s", slot, other, name)
	}
	if last := o.last[slot]; last != "" && last != name {
		o.moves++
	}
	o.slots[slot], o.last[slot] = name, name
	o.takes[slot]++
}

func (o *owners) leave(slot int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.slots, slot)
}

// shares is how many slots each has.
func (o *owners) shares() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	shares := map[string]int{}
	for name := range maps.Values(o.slots) {
		shares[name]++
	}
	return shares
}

// owned returns a copy of the owners by slot.
func (o *owners) owned() map[int]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.slots)
}

func (o *owners) taken(slot int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takes[slot]
}

func (o *owners) movedSince() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	moves := o.moves
	o.moves = 0
	return moves
}

// work owns a slot until its context ends, and for the drain after.
func (o *owners) work(name string, drain time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, slot int) error {
		o.take(slot, name)
		defer o.leave(slot)
		<-ctx.Done()
		leaseapi.Wait(drain)
		return nil
	}
}

func newShards(t *testing.T, l *leaseapi.Link, identity string, o *shard.Options) *shard.Shards {
	t.Helper()
	s, err := shard.New(leaseOf(l, identity), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

// states counts the slots by state.
func states(s *shard.Shards) map[shard.State]int {
	states := map[shard.State]int{}
	for _, slot := range s.Status().Slots {
		states[slot.State]++
	}
	return states
}

// renewOnly is a member that renews and never claims: an elector in its place.
func (x *fixture) renewOnly(name string) (stop func()) {
	x.t.Helper()
	lease := leaseOf(x.api.Link(5), name)
	lease.Name = "test-member-" + name
	l := leaseapi.Object(lease.Name)
	l.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	_, err := x.api.Create(l)
	x.Expect(err).NotTo(HaveOccurred())
	return x.run(func(ctx context.Context) error {
		return leader.Run(ctx, lease, nil, func(ctx context.Context) error {
			x.add("%s leads", name)
			<-ctx.Done()
			return nil
		})
	})
}

// touch edits an annotation of a Lease every ten seconds, as a tool that stamps objects does.
func (x *fixture) touch(name string) (stop func()) {
	return x.run(func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			if l, err := x.api.Get(name); err == nil {
				l.Annotations = map[string]string{"touched": fmt.Sprint(n)}
				_, _ = x.api.Update(l)
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		return nil
	})
}

// diary is a list of events, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.entries...)
}

// count returns how many entries contain text.
func (d *diary) count(text string) (n int) {
	for _, entry := range d.read() {
		n += min(1, strings.Count(entry, text))
	}
	return n
}

// log returns a context whose logger writes into the diary.
func (d *diary) log(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(_, args string) { d.add("%s", args) }, funcr.Options{}))
}

func leaseOf(l *leaseapi.Link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

// background runs f and returns a function that waits for its error.
func background(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func reply(req *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}

// through sends one request through the fence of e, to an API server at host.
func through(ctx context.Context, s *shard.Shards, host string, rt transport, method, path string) (*http.Response, error) {
	config := &rest.Config{Host: host, Transport: rt}
	client, err := rest.HTTPClientFor(serializing(s.Fence(config)))
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("x")
	}
	req, err := http.NewRequestWithContext(ctx, method, host+path, body)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

func serializing(c *rest.Config) *rest.Config {
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

// deaf is an API server that never answers.
func deaf(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	<-req.Context().Done()
	return nil, req.Context().Err()
}
