package shard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

const (
	worldSlots    = 64
	worldReplicas = 5
	worldTime     = 15 * time.Minute
	leaseDuration = 15 * time.Second
)

// world runs replicas that join, leave, die, pause and lose the API at random,
// with lost requests and answers and delayed writes. It checks the invariants.
type world struct {
	api    *leaseapi.API
	rand   *rand.Rand
	ranges *restartedRanges // nil if slots are not ranges

	delayedWrites sync.WaitGroup

	// A place is a slot or a namespace. It may have only one owner at a time.
	mu         sync.Mutex
	reconciles map[int]string    // by place: the replica whose reconcile is in flight
	begun      map[int]begun     // by place: the last reconcile
	working    map[int]int       // by place: number of running functions
	free       map[int]time.Time // since when no function runs and no live member is recorded as owner
	idle       map[int]time.Time // since when no function runs and one live member is recorded as owner
	holders    map[int]string    // the recorded owners
	steps      map[string]int    // how often each kind of step happened
	worst      time.Duration     // the longest time that a place was unowned
	faults     []string
}

// begun is a reconcile that has begun.
type begun struct {
	owner string
	began time.Time
}

func newWorld(t *testing.T, seed int64, ranges *restartedRanges) *world {
	w := &world{
		ranges: ranges,
		api:    leaseapi.New(t), rand: rand.New(rand.NewSource(seed)),
		reconciles: map[int]string{}, working: map[int]int{}, free: map[int]time.Time{},
		steps: map[string]int{}, begun: map[int]begun{}, idle: map[int]time.Time{}, holders: map[int]string{},
	}
	for place := range w.places() {
		w.free[place], w.idle[place] = time.Now(), time.Now()
	}
	w.api.Written = w.recorded
	if ranges != nil {
		w.api.Written = func(l *coordinationv1.Lease) { ranges.written(w, l) }
	}
	return w
}

func (w *world) places() int {
	if w.ranges != nil {
		return rangedPlaces
	}
	return worldSlots
}

// placesOf returns the places of a slot.
func (w *world) placesOf(s *shard.Shards, slot int) []int {
	if w.ranges != nil {
		return w.ranges.placesOf(s, slot)
	}
	return []int{slot}
}

// shards returns the shards of a replica.
func (w *world) shards(l *leaseapi.Link, identity string) *shard.Shards {
	if w.ranges != nil {
		r, err := ranges.New(leaseOf(l, identity), &shard.Options{Slots: rangedSlots})
		if err != nil {
			panic(err)
		}
		cache := counted{objects: w.ranges.objects}
		if err := r.Parts().(slots.Ranger).Divide(context.Background(), []slots.Cache{cache}); err != nil {
			panic(err)
		}
		return r.Shards
	}
	s, err := shard.New(leaseOf(l, identity), &shard.Options{Slots: worldSlots})
	if err != nil {
		panic(err)
	}
	return s
}

// recorded is called when the record of a slot has a new owner. If that owner
// dies before it works on the slot, its death is another failure, and the time
// without an owner counts from its last renewal.
func (w *world) recorded(l *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	holder := ptr.Deref(l.Spec.HolderIdentity, "")
	slot, err := strconv.Atoi(l.Labels["leader.homeostat.dev/slot"])
	switch {
	case err == nil:
		if _, unowned := w.free[slot]; unowned && holder != "" {
			w.owned(slot)
			w.free[slot] = time.Now()
			if holder != w.holders[slot] {
				w.idle[slot] = time.Now()
			}
		}
		w.holders[slot] = holder
	case holder != "": // a member has renewed its Lease
		for slot := range w.free {
			if w.holders[slot] == holder {
				w.free[slot] = time.Now()
			}
		}
	}
}

// owned is called when a slot gets an owner that works on it, and checks for
// how long it had none. The caller holds w.mu.
func (w *world) owned(slot int) {
	if w.ranges != nil { // there is no promise while all replicas stop
		return
	}
	d := time.Since(w.free[slot])
	if d > 2*leaseDuration {
		w.fault("slot %d had no owner for %v", slot, d)
	}
	if d := time.Since(w.idle[slot]); d > 4*leaseDuration {
		w.fault("no replica has worked on slot %d for %v", slot, d)
	}
	w.worst = max(w.worst, d)
}

// chance returns a random duration up to d, in whole milliseconds. It is never
// zero; see CONTRIBUTING.md.
func (w *world) chance(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(1+w.rand.Int63n(int64(d/time.Millisecond))) * time.Millisecond
}

func (w *world) step(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps[kind]++
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// resident is a place where a replica runs. Its process may be started many
// times.
type resident struct {
	*world
	name string
	link *leaseapi.Link
	dead chan struct{} // closed when the process is killed
}

func (r *resident) killed() bool {
	select {
	case <-r.dead:
		return true
	default:
		return false
	}
}

// own works on a slot. It reconciles repeatedly while it may, and then a few
// times more, which the fence has to refuse.
func (r *resident) own(ctx context.Context, s *shard.Shards, client http.RoundTripper, slot int) error {
	places := r.placesOf(s, slot)
	r.begin(places)
	defer r.finish(places)
	defer func() {
		if !slices.Equal(places, r.placesOf(s, slot)) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fault("the places of slot %d are not those with which its function was called", slot)
		}
	}()
	deaf := r.chance(8*time.Second) < time.Second
	for ctx.Err() == nil {
		if len(places) > 0 {
			r.reconcile(ctx, client, r.one(places))
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.chance(time.Second)):
		}
	}
	if deaf && !r.killed() && len(places) > 0 {
		r.reconcile(context.WithoutCancel(ctx), client, r.one(places))
	}
	return nil
}

func (w *world) one(places []int) int {
	if len(places) == 1 {
		return places[0]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return places[w.rand.Intn(len(places))]
}

func (r *resident) begin(places []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, place := range places {
		if r.working[place]++; r.working[place] == 1 {
			r.owned(place)
			delete(r.free, place)
			delete(r.idle, place)
		}
	}
	r.steps["slots taken"]++
}

func (r *resident) finish(places []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, place := range places {
		if r.working[place]--; r.working[place] == 0 {
			r.free[place], r.idle[place] = time.Now(), time.Now()
		}
	}
}

// reconcile reconciles a key of the slot. It takes a while and writes through
// the fence.
func (r *resident) reconcile(ctx context.Context, client http.RoundTripper, slot int) {
	if r.killed() {
		return
	}
	address := &url.URL{Scheme: "http", Host: "api", Path: strconv.Itoa(slot)}
	body := io.NopCloser(strings.NewReader("x"))
	req := (&http.Request{Method: http.MethodPut, URL: address, Body: body}).WithContext(ctx)
	res, err := client.RoundTrip(req)
	if err != nil {
		r.step("writes refused or cut off")
		return
	}
	_ = res.Body.Close()
	r.step("reconciles")
}

// write is the API server's side of a reconcile. From here on the reconcile is
// in flight until it is committed, and no other replica may have a reconcile of
// this slot in flight.
func (r *resident) write(req *http.Request) (*http.Response, error) {
	slot, err := strconv.Atoi(req.URL.Path)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	if other := r.reconciles[slot]; other != "" {
		r.fault("slot %d: a reconcile of %s while one of %s is under way", slot, r.name, other)
	}
	r.reconciles[slot], r.begun[slot] = r.name, begun{r.name, time.Now()}
	held := r.rand.Intn(20) == 0
	r.mu.Unlock()
	if held {
		err := r.holdBack(req, slot)
		r.mu.Lock()
		delete(r.reconciles, slot)
		r.mu.Unlock()
		return answer(req, err)
	}
	select {
	case <-req.Context().Done():
		err = req.Context().Err()
	case <-r.dead:
		err = errors.New("killed")
	case <-time.After(r.chance(500 * time.Millisecond)):
	}
	r.mu.Lock()
	delete(r.reconciles, slot)
	r.mu.Unlock()
	return answer(req, err)
}

// answer returns either a response or an error. A transport that returned both
// would count as answered.
func answer(req *http.Request, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	return reply(req, http.StatusOK, ""), nil
}

// holdBack delays a write. The write arrives at the latest when the Lease would
// have expired after the last renewal before the write. By then its client may
// have given up or died.
func (r *resident) holdBack(req *http.Request, slot int) error {
	r.step("writes held back")
	left, err := time.ParseDuration(req.URL.Query().Get("timeout"))
	if err != nil {
		return err
	}
	sent, arrived := time.Now(), make(chan struct{})
	const room = 5 * time.Second // between the ends of the trust window and of the Lease
	d := r.chance(left + room - 10*time.Millisecond)
	r.delayedWrites.Go(func() {
		defer close(arrived)
		<-time.After(d)
		r.mu.Lock()
		defer r.mu.Unlock()
		if last := r.begun[slot]; last.owner != r.name && last.began.After(sent) {
			r.fault("slot %d: a write of %s arrives %v after it was sent, when %s has reconciled", slot, r.name, d, last.owner)
		}
	})
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case <-r.dead:
		return errors.New("killed")
	case <-arrived:
		return nil
	}
}

// live starts the process repeatedly until ctx ends.
func (r *resident) live(ctx context.Context) {
	for ctx.Err() == nil {
		r.sleep(ctx, r.chance(time.Minute))
		r.once(ctx)
	}
}

func (r *resident) once(ctx context.Context) {
	r.link = r.api.Link(r.chance(time.Hour).Nanoseconds())
	r.link.Slow = r.chance(400*time.Millisecond) + time.Millisecond
	if r.chance(time.Second) < 300*time.Millisecond {
		r.link.LoseAsk, r.link.LoseTell = 0.03, 0.03
		r.step("lossy links")
	}
	r.dead = make(chan struct{})
	s := r.shards(r.link, r.name)
	tr, err := rest.TransportFor(s.Fence(&rest.Config{Host: "http://api", Transport: transport(r.write)}))
	if err != nil {
		panic(err)
	}
	run, stop := context.WithCancel(ctx)
	end := background(func() error {
		return s.Run(run, func(ctx context.Context, slot int) error { return r.own(ctx, s, tr, slot) })
	})
	r.step("joins")
	for range 1 + r.chance(4*time.Millisecond).Milliseconds() {
		r.sleep(ctx, 30*time.Second+r.chance(3*time.Minute))
		if ctx.Err() == nil && r.chance(time.Second) < 400*time.Millisecond {
			r.partition(ctx)
		}
	}
	if ctx.Err() == nil && r.chance(time.Second) < 500*time.Millisecond {
		r.step("kills")
		close(r.dead)
		r.link.Set(func(l *leaseapi.Link) { l.Fail = errors.New("killed") })
	} else {
		r.step("leaves")
	}
	stop()
	if err := end(); err != nil {
		panic(err)
	}
	r.link.Set(func(l *leaseapi.Link) { r.step2("requests of leases", l.Calls) })
}

func (r *resident) step2(kind string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps[kind] += n
}

// partition delays the requests for Leases for a while, and perhaps their
// events and the opening of watches. It simulates an API server or a network
// that is slow.
func (r *resident) partition(ctx context.Context) {
	r.step("partitions")
	open := make(chan struct{})
	kind := r.chance(4 * time.Millisecond)
	if kind > 2*time.Millisecond {
		r.step("watches that hang")
	}
	r.link.Set(func(l *leaseapi.Link) {
		if kind != 4*time.Millisecond {
			l.Cut = open
		}
		if kind != time.Millisecond {
			l.Stall = open
		}
		if kind > 2*time.Millisecond {
			l.Deaf = open
		}
	})
	r.sleep(ctx, r.chance(40*time.Second))
	r.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall, l.Deaf = nil, nil, nil })
	close(open)
}

func (r *resident) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// oneWorld runs one of the many worlds below.
func oneWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.run(t)
		NewWithT(t).Expect(w.faults).To(BeEmpty())
	})
}

var enough = flag.Int("steps", defaultSteps, "how many steps the random worlds take in all")

// TestShardsKeepTheirPromisesInRandomWorlds counts reconciles, requests and
// changes of members as steps. Make check takes a million of them.
func TestShardsKeepTheirPromisesInRandomWorlds(t *testing.T) {
	worlds(t, func() *restartedRanges { return nil })
}

// worlds runs one world after the other, until they have taken enough steps,
// and steps of each kind.
func worlds(t *testing.T, ranges func() *restartedRanges, also ...string) {
	g := NewWithT(t)
	total, kinds, worst := 0, map[string]int{}, time.Duration(0)
	wanted := append([]string{
		"joins", "leaves", "kills", "partitions", "writes refused or cut off", "writes held back", "lossy links",
		"watches that hang",
	}, also...)
	isMissing := func(kind string) bool { return kinds[kind] == 0 }
	for seed := int64(0); total < *enough || slices.ContainsFunc(wanted, isMissing); seed++ {
		g.Expect(seed).To(BeNumerically("<", 500), "the steps must come in bounded time: %v", kinds)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, ranges())
			w.run(t)
			g.Expect(w.faults).To(BeEmpty(), "seed %d", seed)
			worst = max(worst, w.worst)
			for kind, n := range w.steps {
				kinds[kind] += n
				total += n
			}
		})
	}
	t.Logf("%d steps: %v; longest without an owner: %v", total, kinds, worst)
}

func (w *world) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), worldTime)
	defer cancel()
	if w.ranges != nil {
		w.ranges.live(ctx, w)
		w.delayedWrites.Wait()
		return
	}
	// The first replica stays and is never disturbed, so that a replica can
	// always take a slot.
	anchor := &resident{world: w, name: "anchor", link: w.api.Link(1), dead: make(chan struct{})}
	s := w.shards(anchor.link, "anchor")
	tr, err := rest.TransportFor(s.Fence(&rest.Config{Host: "http://api", Transport: transport(anchor.write)}))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var done sync.WaitGroup
	done.Go(func() {
		_ = s.Run(ctx, func(ctx context.Context, slot int) error { return anchor.own(ctx, s, tr, slot) })
	})
	for i := range worldReplicas - 1 {
		r := &resident{world: w, name: fmt.Sprint("r", i)}
		done.Go(func() { r.live(ctx) })
	}
	<-ctx.Done()
	w.mu.Lock()
	for slot := range w.free {
		w.owned(slot)
	}
	w.mu.Unlock()
	done.Wait()
	w.delayedWrites.Wait()
}
