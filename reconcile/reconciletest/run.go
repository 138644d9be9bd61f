package reconciletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

const (
	stopWithin   = 2 * time.Minute  // of virtual time, from the end of its context to the return of Run
	restartAfter = 10 * time.Second // of virtual time, when Run has returned by itself
	takeOver     = 30 * time.Second // of virtual time, from a crash to the next boot, where there are other replicas
	partition    = 45 * time.Second // of virtual time
	mostBoots    = 20
	busySteps    = 30
	busyTime     = 500 * time.Millisecond
)

// run is one run of a case under a plan, inside a bubble.
type run struct {
	c         *Case
	o         Options
	p         plan.Plan
	s         setting
	faultless bool // there was no plan to begin with
	sim       *apisim.Server
	sched     *apisim.Scheduler
	world     *World
	out       *outcome

	gate     *gate
	replicas []*replica
	parted   bool                          // the partition of the plan has begun
	leases   map[types.NamespacedName]bool // that the program has written
	leader   string                        // the client that took the Lease at last

	tail     bool // the plan is over: the program is only looked at
	quiet    bool // the program has restarted at rest: nothing is left to write
	steps    int
	progress time.Time
	current  *call
	created  map[string]output    // by uid
	alive    map[string]int       // how many of one name the program made that are there
	held     map[int]time.Time    // watches that are held back, since when
	slow     map[int]time.Time    // calls that are held back, since when
	tardy    map[string]time.Time // actors that are late, since when
	acting   bool                 // an actor writes
	later    map[string]time.Time // requests that the server has put off, until when
	moved    time.Time            // when time passed at last
	still    int                  // steps since
	served   int                  // calls since a late one
	next     int                  // step of the workload

	random    *rand.Rand         // orders everything; nil: the order of a good day
	versions  []int64            // of the writes to what the program watches
	wanted    map[types.UID]bool // objects that were there before a restart with caches of the past
	frozen    time.Time          // until when the program's caches are those of the past, and no event comes
	late      string             // the resource whose lists and watches come late
	lateUntil time.Time
	rivals    map[types.UID]bool // objects that somebody else wrote just before the program did
}

// setting is in what two references differ: what must not matter.
type setting struct {
	seed  uint64
	start time.Duration
	stay  bool // it has to stay at rest
}

func newRun(c *Case, o Options, p plan.Plan, s setting) (*run, error) {
	r := &run{
		c: c, o: o, p: p, s: s, faultless: len(p) == 0, out: newOutcome(),
		created: map[string]output{}, leases: map[types.NamespacedName]bool{}, replicas: newReplicas(c.Replicas),
		alive: map[string]int{}, held: map[int]time.Time{}, slow: map[int]time.Time{}, tardy: map[string]time.Time{},
		later: map[string]time.Time{}, rivals: map[types.UID]bool{},
	}
	if d, found := p.First(plan.Shuffled); found {
		r.random = rand.New(rand.NewPCG(uint64(d.Index), 1))
	}
	if s.start > 0 {
		<-time.NewTimer(s.start).C
	}
	var err error
	r.sim, err = apisim.New(&apisim.Options{
		Resources: c.resources(), NoStreamingLists: true, Lifecycle: true,
		Seed: s.seed,
	})
	if err != nil {
		return nil, err
	}
	r.world = c.On(backend.Simulated{Server: r.sim})
	if err := backend.Begin(r.world.server, c.Objects...); err != nil {
		return nil, err
	}
	r.sim.Deny(r.called)
	r.sim.OnCommit(r.committed)
	r.sched = r.sim.Schedule(1)
	r.gate = &gate{wake: r.sched.Wake}
	r.sched.OnCrash(func(client string) {
		p := r.replica(client)
		p.crashed = true
		p.cancel()
	})
	collector := r.sim.Collector()
	r.sched.Add(r.extra(Actor{
		Name: "collect garbage", Enabled: func(*World) bool { return collector.Pending() },
		Do: func(*World) { collector.Step() },
	}))
	for _, a := range c.Actors {
		r.sched.Add(r.extra(a))
	}
	return r, nil
}

// play runs all of it. What it finds is in the outcome.
func (r *run) play(ctx context.Context) {
	defer simhook.Use(r.gate.hooks())()
	r.bootAll(ctx)
	r.settle(ctx)
	r.disturbRest(ctx)
	for r.next < len(r.c.Workload) && r.out.finding == nil {
		r.rest()
		r.work(ctx)
		r.settle(ctx)
		r.disturbRest(ctx)
	}
	r.out.outputs = r.outputs()
	r.drift(ctx)
	if r.out.finding == nil && r.c.Goal != nil {
		if err := r.c.Goal(r.world); err != nil {
			r.find(report.Goal, err.Error())
		}
	}
	r.rest()
	if r.s.stay {
		r.stay(ctx)
	}
	r.lookAgain(ctx)
	r.finish()
}

// rest keeps what the server has when the program is at rest, and looks whether nothing was lost on the way.
func (r *run) rest() {
	r.out.restedAt = append(r.out.restedAt, len(r.out.lines))
	r.out.states = append(r.out.states, state.OfServer(r.sim, r.c.Ignore))
	r.out.commits = append(r.out.commits, len(r.versions))
	if r.out.finding == nil {
		r.checkCaches()
	}
}

// lookAgain restarts the program, so that it looks at every object once more: nothing is left to write.
func (r *run) lookAgain(ctx context.Context) {
	if r.out.finding != nil {
		return
	}
	r.tail = true
	r.line("restart: all is done, so nothing may be written")
	r.haltAll()
	r.bootAll(ctx)
	r.settle(ctx)
}

func (r *run) finish() {
	r.haltAll()
	r.sched.Stop()
}

// settle lets things happen until nobody has written for long enough, and nobody is about to by the clock.
func (r *run) settle(ctx context.Context) {
	r.progress = time.Now()
	r.live(ctx, func() time.Time {
		last := r.progress
		for _, due := range r.dues() {
			last = later(last, due)
		}
		return last.Add(r.o.Rest)
	})
}

// live lets things happen until it is that time.
func (r *run) live(ctx context.Context, until func() time.Time) {
	for {
		enabled := r.sched.Enabled() // all is still: what the hooks wrote may be read
		if r.out.finding != nil {
			return
		}
		if r.returned(ctx) {
			continue
		}
		entered := r.gate.open(r.chance())
		if !entered && r.early(ctx) {
			continue
		}
		if !entered && !acts(enabled) && !time.Now().Before(until()) {
			return
		}
		if r.steps++; r.steps > r.o.Steps {
			r.find(report.Rest, fmt.Sprintf("it never comes to rest: %d steps, and the last write was %v ago",
				r.o.Steps, time.Since(r.progress)))
			return
		}
		if entered {
			continue
		}
		if a, f, ok := r.pick(enabled); ok {
			r.take(a, f)
			r.age()
			continue
		}
		r.sched.Idle(r.patience(until()))
	}
}

// chance is what orders everything in this run; nil: it is the order of a good day.
func (r *run) chance() *rand.Rand {
	if r.tail {
		return nil
	}
	return r.random
}

// patience is how long nothing may happen until something has to be decided.
func (r *run) patience(until time.Time) time.Duration {
	left := time.Until(until)
	sooner := func(t time.Time) {
		if time.Until(t) > 0 {
			left = min(left, time.Until(t))
		}
	}
	for _, held := range []map[int]time.Time{r.held, r.slow} {
		for _, since := range held {
			sooner(since.Add(r.o.Lag))
		}
	}
	for _, p := range r.replicas {
		sooner(p.down)
		sooner(p.apart)
	}
	sooner(r.frozen)
	sooner(r.lateUntil)
	for _, due := range r.dues() {
		sooner(due)
	}
	return max(left, time.Millisecond)
}

// work does the next step of the workload: several, and while the program is down, if the plan says so.
func (r *run) work(ctx context.Context) {
	d, down := r.p.Find(plan.Offline, r.next+1)
	if !down {
		r.step(ctx)
		return
	}
	r.line("down      the program")
	r.haltAll()
	for range min(d.N, len(r.c.Workload)-r.next) {
		r.step(ctx)
		r.settle(ctx)
	}
	r.line("restart   the program")
	r.bootAll(ctx)
}

// step does the next step of the workload.
func (r *run) step(ctx context.Context) {
	step := r.c.Workload[r.next]
	r.next++
	r.line("others    " + step.Name)
	r.progress = time.Now()
	if err := step.Do(ctx, r.world); err != nil && r.faultless {
		r.find(report.Workload, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
	}
}

// early does a step of the workload before its time, if the plan says so.
func (r *run) early(ctx context.Context) bool {
	d, now := r.p.Find(plan.Early, r.out.decisions+1)
	if !now || r.tail || r.next >= len(r.c.Workload) {
		return false
	}
	r.done(d)
	r.step(ctx)
	return true
}
