package reconciletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// What the zero SmokeOptions mean.
const (
	DefaultSmokeRest    = 3 * time.Second
	DefaultSmokeTimeout = 2 * time.Minute
	DefaultSmokeKills   = 20
)

// SmokeOptions are those of [Smoke]. nil and zero fields mean the defaults. All times are real.
type SmokeOptions struct {
	// Rest is how long nobody may write until the program counts as at rest. It must be longer than the longest
	// back-off of the program after one failure. Default [DefaultSmokeRest].
	Rest time.Duration
	// Timeout is how long it may take until the program is at rest, or has stopped, and how long to clean up.
	// Default [DefaultSmokeTimeout].
	Timeout time.Duration
	// Kills is how often the program is killed at most; what it writes after that, it writes undisturbed. Default
	// [DefaultSmokeKills].
	Kills int
	// Program is the program's way to the server, if it is another one than the administrator's. With that of its
	// ServiceAccount, what its Role lacks shows.
	Program *rest.Config
}

func (o *SmokeOptions) withDefaults() SmokeOptions {
	var v SmokeOptions
	if o != nil {
		v = *o
	}
	v.Rest = cmp.Or(v.Rest, DefaultSmokeRest)
	v.Timeout = cmp.Or(v.Timeout, DefaultSmokeTimeout)
	v.Kills = cmp.Or(v.Kills, DefaultSmokeKills)
	return v
}

func (o *SmokeOptions) validate() error {
	var faults []error
	if o.Rest < 0 {
		faults = append(faults, fmt.Errorf("Rest %v: must not be negative", o.Rest))
	}
	if o.Timeout <= o.Rest {
		faults = append(faults, fmt.Errorf("Timeout %v: must be longer than Rest %v", o.Timeout, o.Rest))
	}
	if o.Kills < 0 {
		faults = append(faults, fmt.Errorf("Kills %d: must not be negative", o.Kills))
	}
	return errors.Join(faults...)
}

// Smoke runs the case of [Explore] on a real server, to which config leads as an administrator: of kind, envtest, any
// cluster that is there for tests. It explores nothing; it plays the case twice, in real time.
//
//   - Undisturbed, and at the end the program is stopped and started again.
//   - Then the program is killed after each of its writes, before it sees the answer, and started again; and each step
//     of the workload happens while it is down. To be killed is to have no network any more, at once, and a context
//     that has ended.
//
// Both times the program has to come to rest after each step; Goal holds at the end, Always after each write; a
// restart at the end writes nothing; Run returns when its context has ended, and not before; caches named to
// [Env.Cache] have what the server has, and nobody has edited objects of an informer. At each rest the state is that of
// the undisturbed run, but for what Explore leaves out, and for what differs between two undisturbed runs: a third is
// made when the second one ends elsewhere.
//
// Always is held against the writes when the program has come to rest, in the order of their resourceVersions:
// [World.Objects] and [List] show what there was after each. Both leave out what the cluster had before, but for the
// namespaces that every cluster has, and what it gives each namespace: kube-root-ca.crt and the default ServiceAccount.
//
// What it does not do: Case.Actors rest, for the cluster has controllers of its own; where it has none, as envtest,
// nobody collects garbage or ends namespaces. Identifiers of Case.Objects become those that the server gives,
// creation times and generations are the server's, and its defaults and validation hold. The CRDs of Case.Resources
// have to be there. It makes no other fault, no old cache, no partition, and no leap of time: that is what Explore is
// for.
//
// Shape: it refuses to begin when an object of the case is there already; at the end it deletes what the case and the
// program made, and namespaces with all that is in them; what was there before and was changed gets its content back.
// Two of them must not use one cluster at the same time. Any testing.TB will do, also Ginkgo's GinkgoTB.
func Smoke(t testing.TB, c *Case, config *rest.Config, o *SmokeOptions) *Report {
	t.Helper()
	r, err := smoke(t.Context(), c, config, o)
	if err != nil {
		t.Fatalf("running the case on a real server: %v", err)
	}
	if r.Failure != "" {
		t.Error(r.Failure)
		return r
	}
	t.Logf("%d runs, %d kills; undisturbed: %d calls, %d writes", r.Runs, r.Kills, r.Calls, r.Writes)
	return r
}

// smoke returns an error if there is nothing to judge.
func smoke(ctx context.Context, c *Case, config *rest.Config, o *SmokeOptions) (*Report, error) {
	opts := o.withDefaults()
	if err := errors.Join(opts.validate(), c.validate()); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := newSmoker(ctx, c, config, opts)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	err = s.play(ctx)
	s.report.Elapsed = time.Since(began)
	s.report.Rules = s.rules.rules()
	return s.report, err
}

// play makes the runs, and reports the first that is not right.
func (s *smoker) play(ctx context.Context) error {
	plain, err := s.try(ctx, false)
	if err != nil || s.fail(plain, false) {
		return err
	}
	s.report.Calls, s.report.Writes = len(plain.out.calls), plain.out.writes
	killed, err := s.try(ctx, true)
	if err != nil {
		return err
	}
	s.report.Kills = killed.kills
	if s.fail(killed, true) || s.same(plain, killed, nil) == nil {
		return nil
	}
	again, err := s.try(ctx, false) // what differs between two right ones does not count
	if err != nil || s.fail(again, false) {
		return err
	}
	if s.same(again, killed, plain) != nil {
		killed.out.finding = s.same(plain, killed, again)
		s.fail(killed, true)
	}
	return nil
}

// same compares two runs, but for what differs between the first and the other one, if there is another.
func (s *smoker) same(want, have, other *trial) *finding {
	states := s.statesOf(want)
	x := &explorer{reference: &outcome{states: states}, masked: make([]map[string]bool, len(states))}
	if other != nil {
		for i, o := range s.statesOf(other) {
			x.masked[i] = states[i].mask(o)
		}
	}
	have.out.states = s.statesOf(have)
	return x.compare(have.out)
}

// statesOf are the states at each rest, of what anybody has asked for in any run.
func (s *smoker) statesOf(t *trial) []state {
	var all []state
	for _, objects := range t.rests {
		var asked []located
		for _, o := range objects {
			if s.mirror.touched(o.resource) {
				asked = append(asked, o)
			}
		}
		all = append(all, picture(asked, s.c.Ignore))
	}
	return all
}

// fail puts the finding of a run into the report, if there is one.
func (s *smoker) fail(t *trial, killing bool) bool {
	f := t.out.finding
	if f == nil {
		return false
	}
	what, p := "on a real server, undisturbed", plan(nil)
	if killing {
		what = fmt.Sprintf("on a real server, killed after each write (%d kills), and down at each step", t.kills)
		p = plan{{at: atCall, fault: apisim.CrashAfter}}
	}
	s.report.Oracle, s.report.Trace = f.oracle, t.out.lines
	if f.upTo > 0 {
		s.report.Trace = t.out.lines[:f.upTo]
	}
	s.report.Trace = foldReads(s.report.Trace)
	s.report.Failure = s.report.words(what+": "+f.text, p, f)
	if len(s.c.Actors) > 0 {
		s.report.Failure += "  note: Case.Actors do not act on a real server\n"
	}
	return true
}
