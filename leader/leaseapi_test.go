package leader_test

import (
	"context"
	"errors"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// leaseAPI is the part of an API server that leases need: resource versions,
// conflicts and watches.
type leaseAPI struct {
	mu       sync.Mutex
	version  int
	history  []change
	stored   map[string]*coordinationv1.Lease
	watchers map[*leaseWatch]bool
	inFlight sync.WaitGroup // watches, and requests, given up ones too

	// written is called after each write, if it is set; it must not call back.
	written func(*coordinationv1.Lease)
}

// newLeaseAPI is empty. The test ends when no request is under way any more.
func newLeaseAPI(t *testing.T) *leaseAPI {
	a := &leaseAPI{stored: map[string]*coordinationv1.Lease{}, watchers: map[*leaseWatch]bool{}}
	t.Cleanup(a.inFlight.Wait)
	return a
}

func (a *leaseAPI) newest() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

func (a *leaseAPI) get(name string) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.stored[name]; l != nil {
		return l.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(leases, name)
}

func (a *leaseAPI) list(selector string) *coordinationv1.LeaseList {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}}
	for _, l := range a.stored {
		if !selects(selector, l) {
			continue
		}
		out.Items = append(out.Items, *l.DeepCopy())
	}
	return out
}

func (a *leaseAPI) create(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored[l.Name] != nil {
		return nil, apierrors.NewAlreadyExists(leases, l.Name)
	}
	return a.store(watch.Added, l, types.UID("uid-"+strconv.Itoa(a.version))), nil
}

func (a *leaseAPI) update(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.stored[l.Name]
	switch {
	case old == nil:
		return nil, apierrors.NewNotFound(leases, l.Name)
	case old.ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(leases, l.Name, errors.New("the object has been modified"))
	}
	return a.store(watch.Modified, l, old.UID), nil
}

// store is called with the lock held.
func (a *leaseAPI) store(kind watch.EventType, l *coordinationv1.Lease, uid types.UID) *coordinationv1.Lease {
	a.version++
	l = l.DeepCopy()
	l.UID, l.ResourceVersion = uid, strconv.Itoa(a.version)
	a.stored[l.Name] = l
	a.announce(kind, l)
	if a.written != nil {
		a.written(l)
	}
	return l.DeepCopy()
}

func (a *leaseAPI) delete(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.stored[name]; l != nil {
		a.version++
		delete(a.stored, name)
		l.ResourceVersion = strconv.Itoa(a.version)
		a.announce(watch.Deleted, l)
	}
}

func (a *leaseAPI) announce(kind watch.EventType, l *coordinationv1.Lease) {
	c := change{version: a.version, event: watch.Event{Type: kind, Object: l.DeepCopy()}}
	a.history = append(a.history, c)
	for w := range a.watchers {
		w.add(c)
	}
}

// link is one replica's way to the API: it may be slow, lose requests or lose
// answers. A request that its client has given up still arrives.
type link struct {
	coordinationclient.LeaseInterface
	api *leaseAPI

	mu       sync.Mutex
	rand     *rand.Rand
	slow     time.Duration // the most that a way takes
	loseAsk  float64       // the share of requests that never arrive
	loseTell float64       // the share of answers that never arrive
	fail     error
	calls    int
	cut      chan struct{} // while not nil: requests wait until it closes
	stall    chan struct{} // while not nil: events wait until it closes
}

func (a *leaseAPI) link(seed int64) *link {
	return &link{api: a, rand: rand.New(rand.NewSource(seed))}
}

func (l *link) Leases(string) coordinationclient.LeaseInterface { return l }

func (l *link) set(f func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

type answer[T any] struct {
	value T
	err   error
}

func call[T any](ctx context.Context, l *link, f func() (T, error)) (T, error) {
	l.mu.Lock()
	there, back := l.way(), l.way()
	asked, told := l.rand.Float64() >= l.loseAsk, l.rand.Float64() >= l.loseTell
	fail, cut := l.fail, l.cut
	l.calls++
	l.mu.Unlock()
	var none T
	if fail != nil {
		return none, fail
	}
	done := make(chan answer[T], 1)
	l.api.inFlight.Go(func() {
		if cut != nil {
			<-cut
		}
		wait(there)
		if !asked {
			return
		}
		value, err := f()
		wait(back)
		if told {
			done <- answer[T]{value, err}
		}
	})
	if ctx.Done() == nil {
		panic("a request of the lease has no deadline")
	}
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case a := <-done:
		return a.value, a.err
	}
}

func (l *link) way() time.Duration {
	if l.slow == 0 {
		return 0
	}
	return time.Duration(l.rand.Int63n(int64(l.slow)))
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func (l *link) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return call(ctx, l, func() (*coordinationv1.Lease, error) { return l.api.get(name) })
}

func (l *link) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return call(ctx, l, func() (*coordinationv1.Lease, error) { return l.api.create(lease) })
}

func (l *link) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return call(ctx, l, func() (*coordinationv1.Lease, error) { return l.api.update(lease) })
}

func (l *link) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	_, err := call(ctx, l, func() (struct{}, error) {
		old, err := l.api.get(name)
		switch {
		case err != nil:
			return struct{}{}, err
		case old.ResourceVersion != *o.Preconditions.ResourceVersion:
			return struct{}{}, apierrors.NewConflict(leases, name, errors.New("the precondition does not hold"))
		}
		l.api.delete(name)
		return struct{}{}, nil
	})
	return err
}

func (l *link) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return call(ctx, l, func() (*coordinationv1.LeaseList, error) { return l.api.list(o.LabelSelector), nil })
}

type change struct {
	version int
	event   watch.Event
}

// selects knows selectors of one label.
func selects(selector string, l *coordinationv1.Lease) bool {
	key, value, _ := strings.Cut(selector, "=")
	return l.Labels[key] == value
}

func (l *link) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	since, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &leaseWatch{
		link: l, selector: o.LabelSelector,
		events: make(chan watch.Event), more: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.api.mu.Lock()
	for _, c := range l.api.history {
		if c.version > since {
			w.add(c)
		}
	}
	l.api.watchers[w] = true
	l.api.mu.Unlock()
	l.api.inFlight.Go(func() { w.pump(ctx) })
	return w, nil
}

// leaseWatch delivers events in order, each after the link's delay.
type leaseWatch struct {
	link     *link
	selector string
	events   chan watch.Event
	more     chan struct{}
	stop     chan struct{}
	once     sync.Once

	mu      sync.Mutex
	waiting []change
}

func (w *leaseWatch) add(c change) {
	if !selects(w.selector, c.event.Object.(*coordinationv1.Lease)) {
		return
	}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
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
			case <-w.more:
			}
			continue
		}
		w.link.mu.Lock()
		way, stall := w.link.way(), w.link.stall
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
		wait(way)
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

func (w *leaseWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *leaseWatch) Stop() {
	w.once.Do(func() {
		w.link.api.mu.Lock()
		delete(w.link.api.watchers, w)
		w.link.api.mu.Unlock()
		close(w.stop)
	})
}

// lateLeases is a client that is set after the elector was made.
type lateLeases struct{ kubernetes.Interface }

func (c *lateLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return c.CoordinationV1().Leases(namespace)
}

func leaseObject(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func microTime(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }
