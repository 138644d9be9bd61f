// Package leaseapi simulates the part of an API server that serves Leases, and
// slow, lossy and broken connections to it.
package leaseapi

import (
	"context"
	"errors"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Leases is the resource of Leases.
var Leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// API is the part of an API server that serves Leases, with resourceVersions,
// conflicts and watches.
type API struct {
	mu       sync.Mutex
	version  int
	history  []change
	stored   map[string]*coordinationv1.Lease
	watchers map[*leaseWatch]bool
	inFlight int        // number of watches and requests, including abandoned requests
	idle     *sync.Cond // signals that inFlight is zero; its lock is mu

	// Written is called after a Lease was created or updated, but not after a
	// deletion. It must not call the API. It may be nil.
	Written func(*coordinationv1.Lease)
}

// New returns an empty API. At the end of the test, it waits until all requests
// have ended.
func New(t interface{ Cleanup(f func()) }) *API {
	a := &API{stored: map[string]*coordinationv1.Lease{}, watchers: map[*leaseWatch]bool{}}
	a.idle = sync.NewCond(&a.mu)
	t.Cleanup(a.settle)
	return a
}

// begin runs f in a goroutine for which settle waits.
func (a *API) begin(f func()) {
	a.mu.Lock()
	a.inFlight++
	a.mu.Unlock()
	go func() {
		defer a.finish()
		f()
	}()
}

func (a *API) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight--; a.inFlight == 0 {
		a.idle.Broadcast()
	}
}

// settle waits until no request and no watch is in flight. Unlike the Wait of a
// WaitGroup, it may run concurrently with begin, because a failing test does
// not stop its replicas first.
func (a *API) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.inFlight > 0 {
		a.idle.Wait()
	}
}

// Newest returns the newest resourceVersion.
func (a *API) Newest() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

// Get returns the Lease with this name.
func (a *API) Get(name string) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.stored[name]; l != nil {
		return l.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(Leases, name)
}

func (a *API) list(selector string) *coordinationv1.LeaseList {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
	for _, l := range a.stored {
		if !selects(selector, l) {
			continue
		}
		list.Items = append(list.Items, *l.DeepCopy())
	}
	return list
}

// Create adds a Lease and returns it as it was stored.
func (a *API) Create(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored[l.Name] != nil {
		return nil, apierrors.NewAlreadyExists(Leases, l.Name)
	}
	return a.store(watch.Added, l, types.UID("uid-"+strconv.Itoa(a.version))), nil
}

// Update replaces a Lease if l has the resourceVersion of the stored Lease.
func (a *API) Update(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.stored[l.Name]
	switch {
	case old == nil:
		return nil, apierrors.NewNotFound(Leases, l.Name)
	case old.ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(Leases, l.Name, errors.New("the object has been modified"))
	}
	return a.store(watch.Modified, l, old.UID), nil
}

// store stores a Lease and announces it. The lock must be held.
func (a *API) store(kind watch.EventType, l *coordinationv1.Lease, uid types.UID) *coordinationv1.Lease {
	a.version++
	l = l.DeepCopy()
	l.UID, l.ResourceVersion = uid, strconv.Itoa(a.version)
	old := a.stored[l.Name]
	a.stored[l.Name] = l
	a.announce(kind, l, old)
	if a.Written != nil {
		a.Written(l)
	}
	return l.DeepCopy()
}

// Delete deletes the Lease with this name, if it exists.
func (a *API) Delete(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.stored[name]; l != nil {
		a.version++
		delete(a.stored, name)
		l.ResourceVersion = strconv.Itoa(a.version)
		a.announce(watch.Deleted, l, l)
	}
}

func (a *API) announce(kind watch.EventType, l, old *coordinationv1.Lease) {
	c := change{version: a.version, event: watch.Event{Type: kind, Object: l.DeepCopy()}, old: old.DeepCopy()}
	a.history = append(a.history, c)
	for w := range a.watchers {
		w.add(c)
	}
}

// Link is one replica's connection to the API. It may be slow, and lose
// requests or answers. A request that the client has given up still reaches the
// API.
type Link struct {
	coordinationclient.LeaseInterface
	api *API

	mu       sync.Mutex
	rand     *rand.Rand
	Slow     time.Duration // the longest delay of a message in one direction
	Reads    Delay         // additional delay of reads
	Writes   Delay         // additional delay of writes
	LoseAsk  float64       // the probability that a request is lost
	LoseTell float64       // the probability that an answer is lost
	Fail     error
	FailGet  error // the error that Get returns instead of an answer, unless it is nil
	Full     error // the error that writes return instead of an answer, unless it is nil
	Calls    int
	Cut      chan struct{} // requests wait until this channel is closed, unless it is nil
	Stall    chan struct{} // events wait until this channel is closed, unless it is nil
	Deaf     chan struct{} // watches do not open until this channel is closed, unless it is nil
}

// Delay is the latency of a connection: a request needs the time Request to
// reach the API, and its answer needs the time Response to return.
type Delay struct{ Request, Response time.Duration }

// Link returns a fast and reliable connection to the API. The seed determines
// which requests are affected by faults that are set later.
func (a *API) Link(seed int64) *Link {
	return &Link{api: a, rand: rand.New(rand.NewSource(seed))}
}

// Leases returns the link for any namespace.
func (l *Link) Leases(string) coordinationclient.LeaseInterface { return l }

// Set calls f with the link locked. f may change the fields of the link, also
// while clients are using it.
func (l *Link) Set(f func(*Link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

type answer[T any] struct {
	value T
	err   error
}

func read[T any](ctx context.Context, l *Link, f func() (T, error)) (T, error) {
	return call(ctx, l, func(l *Link) Delay { return l.Reads }, f)
}

func write[T any](ctx context.Context, l *Link, f func() (T, error)) (T, error) {
	return call(ctx, l, func(l *Link) Delay { return l.Writes }, func() (T, error) {
		l.mu.Lock()
		full := l.Full
		l.mu.Unlock()
		if full != nil {
			var zero T
			return zero, full
		}
		return f()
	})
}

func call[T any](ctx context.Context, l *Link, delayOf func(*Link) Delay, f func() (T, error)) (T, error) {
	l.mu.Lock()
	extra := delayOf(l)
	request, response := l.delay()+extra.Request, l.delay()+extra.Response
	asked, answered := l.rand.Float64() >= l.LoseAsk, l.rand.Float64() >= l.LoseTell
	fail, cut := l.Fail, l.Cut
	l.Calls++
	l.mu.Unlock()
	var zero T
	if fail != nil {
		return zero, fail
	}
	answers := make(chan answer[T], 1)
	l.api.begin(func() {
		if cut != nil {
			<-cut
		}
		Wait(request)
		if !asked {
			return
		}
		value, err := f()
		Wait(response)
		if answered {
			answers <- answer[T]{value, err}
		}
	})
	if ctx.Done() == nil {
		panic("a request of the lease has no deadline")
	}
	select {
	case <-ctx.Done():
		return zero, ctx.Err()
	case a := <-answers:
		return a.value, a.err
	}
}

func (l *Link) delay() time.Duration {
	if l.Slow == 0 {
		return 0
	}
	return time.Duration(l.rand.Int63n(int64(l.Slow)))
}

// Wait blocks for d. It does not block if d is zero.
func Wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// Get implements [coordinationclient.LeaseInterface].
func (l *Link) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return read(ctx, l, func() (*coordinationv1.Lease, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.FailGet != nil {
			return nil, l.FailGet
		}
		return l.api.Get(name)
	})
}

// Create implements [coordinationclient.LeaseInterface].
func (l *Link) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return write(ctx, l, func() (*coordinationv1.Lease, error) { return l.api.Create(lease) })
}

// Update implements [coordinationclient.LeaseInterface].
func (l *Link) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return write(ctx, l, func() (*coordinationv1.Lease, error) { return l.api.Update(lease) })
}

// Delete implements [coordinationclient.LeaseInterface].
func (l *Link) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := write(ctx, l, func() (struct{}, error) {
		old, err := l.api.Get(name)
		switch {
		case err != nil:
			return struct{}{}, err
		case old.ResourceVersion != *o.Preconditions.ResourceVersion:
			return struct{}{}, apierrors.NewConflict(Leases, name, errors.New("the precondition does not hold"))
		}
		l.api.Delete(name)
		return struct{}{}, nil
	})
	return err
}

// List implements [coordinationclient.LeaseInterface].
func (l *Link) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return read(ctx, l, func() (*coordinationv1.LeaseList, error) { return l.api.list(o.LabelSelector), nil })
}

type change struct {
	version int
	event   watch.Event
	old     *coordinationv1.Lease // nil if the Lease is new
}

// selects reports whether selector selects the Lease. selector is empty or has
// one label.
func selects(selector string, l *coordinationv1.Lease) bool {
	key, value, _ := strings.Cut(selector, "=")
	return l.Labels[key] == value
}

// Watch implements [coordinationclient.LeaseInterface].
func (l *Link) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	version, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	deaf := l.Deaf
	l.mu.Unlock()
	if deaf != nil {
		select {
		case <-deaf:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w := &leaseWatch{
		link: l, selector: o.LabelSelector,
		events: make(chan watch.Event), notify: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.api.mu.Lock()
	for _, c := range l.api.history {
		if c.version > version {
			w.add(c)
		}
	}
	l.api.watchers[w] = true
	l.api.mu.Unlock()
	l.api.begin(func() { w.pump(ctx) })
	return w, nil
}

// leaseWatch delivers events in order, each after the link's delay.
type leaseWatch struct {
	link     *Link
	selector string
	events   chan watch.Event
	notify   chan struct{}
	stop     chan struct{}
	stopOnce sync.Once

	mu      sync.Mutex
	waiting []change
}

// add queues a change. As on a real server, a Lease that the selector no longer
// selects counts as deleted, and a Lease that it did not select before counts
// as added. Changes of other Leases are left out.
func (w *leaseWatch) add(c change) {
	current := c.event.Object.(*coordinationv1.Lease)
	wasSelected, isSelected := c.old != nil && selects(w.selector, c.old), selects(w.selector, current)
	switch {
	case !wasSelected && !isSelected:
		return
	case !isSelected:
		last := c.old.DeepCopy()
		last.ResourceVersion = current.ResourceVersion
		c.event = watch.Event{Type: watch.Deleted, Object: last}
	case !wasSelected:
		c.event.Type = watch.Added
	}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	w.mu.Unlock()
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

func (w *leaseWatch) pump(ctx context.Context) {
	defer w.Stop()
	for {
		w.mu.Lock()
		batch := w.waiting
		w.waiting = nil
		w.mu.Unlock()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-w.stop:
				return
			case <-w.notify:
			}
			continue
		}
		w.link.mu.Lock()
		delay, stall := w.link.delay(), w.link.Stall
		w.link.mu.Unlock()
		if stall != nil {
			select {
			case <-ctx.Done():
				return
			case <-w.stop:
				return
			case <-stall:
			}
		}
		Wait(delay)
		for _, c := range batch {
			select {
			case <-ctx.Done():
				return
			case <-w.stop:
				return
			case w.events <- watch.Event{Type: c.event.Type, Object: c.event.Object.DeepCopyObject()}:
			}
		}
	}
}

// ResultChan returns the channel of events.
func (w *leaseWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *leaseWatch) Stop() {
	w.stopOnce.Do(func() {
		w.link.api.mu.Lock()
		delete(w.link.api.watchers, w)
		w.link.api.mu.Unlock()
		close(w.stop)
	})
}

// Object returns a Lease that has only a name.
func Object(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
