// Package smoke plays a case on a real API server: undisturbed, and then with a
// kill after each write.
//
//	smoker ── trial: undisturbed ── trial: killing ── compare, a third trial if they differ
//	           │
//	           ├─ lives: the replicas, each with a wire to the server that can be cut
//	           ├─ journal: the traffic on the wires; it kills
//	           └─ remote, mirror, past: the server now, as its watches show it, and after each write
package smoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Options has the options of package live, with their defaults filled in.
type Options struct {
	Rest, Timeout time.Duration
	Kills         int
	Program       *rest.Config
}

// Play plays the case on the server of config. An error means that the case
// could not be played, and that nothing was judged.
func Play(ctx context.Context, c *reconciletest.Case, config *rest.Config, o Options) (*reconciletest.Report, error) {
	began := time.Now()
	s, err := newSmoker(ctx, c, config, o)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	err = s.play(ctx)
	s.report.Elapsed = time.Since(began)
	s.report.Rules = s.rules.Rules()
	return s.report, err
}

// smoker makes the trials of one case.
type smoker struct {
	c       *reconciletest.Case
	o       Options
	config  *rest.Config // the configuration with the administrator's credentials
	program *rest.Config
	remote  *remote
	mirror  *mirror
	stop    func() // ends the mirror
	past    *past
	report  *reconciletest.Report
	rules   rules.Set
	granted rules.Granted
}

func newSmoker(ctx context.Context, c *reconciletest.Case, config *rest.Config, o Options) (*smoker, error) {
	s := &smoker{
		c: c, o: o, config: rest.CopyConfig(config), past: newPast(), report: &reconciletest.Report{}, rules: rules.Set{},
		remote: &remote{},
	}
	var err error
	if s.granted, err = rules.Read(c.Roles); err != nil {
		return nil, fmt.Errorf("reading Case.Roles: %w", err)
	}
	s.config.QPS, s.config.WarningHandler = -1, rest.NoWarnings{}
	s.program = s.config
	if o.Program != nil {
		s.program = o.Program
	}
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	s.remote.dynamic = client
	if s.remote.resources, err = serverResources(s.config, c); err != nil {
		return nil, err
	}
	s.mirror, s.stop = newMirror(ctx, client, s.remote.resources)
	return s, nil
}

// begin waits for the watches, and refuses a cluster that has an object of the
// case.
func (s *smoker) begin(ctx context.Context) error {
	deadline := time.Now().Add(s.o.Timeout)
	for missing := s.mirror.unsynced(); len(missing) > 0; missing = s.mirror.unsynced() {
		if time.Now().After(deadline) || !wait(ctx, pollInterval) {
			return fmt.Errorf("watching the server: %s were not listed within %v", strings.Join(missing, ", "), s.o.Timeout)
		}
	}
	for _, c := range s.mirror.drain() {
		s.past.advance(c)
	}
	return s.remote.refuse(ctx, s.c)
}

// play makes the trials, and reports the first trial that fails.
func (s *smoker) play(ctx context.Context) error {
	plain, err := s.try(ctx, false)
	if err != nil || s.fail(plain) {
		return err
	}
	s.report.Calls, s.report.Writes = plain.journal.out.calls, plain.journal.out.writes
	killed, err := s.try(ctx, true)
	if err != nil {
		return err
	}
	s.report.Kills = killed.journal.kills
	if s.fail(killed) || s.compare(plain, killed, nil) == nil {
		return nil
	}
	repeated, err := s.try(ctx, false) // differences that also occur between two undisturbed trials do not count
	if err != nil || s.fail(repeated) {
		return err
	}
	if s.compare(repeated, killed, plain) != nil {
		killed.journal.out.finding = s.compare(plain, killed, repeated)
		s.fail(killed)
	}
	return nil
}

// try makes one trial, and restores the former state of the server.
func (s *smoker) try(ctx context.Context, killing bool) (*trial, error) {
	s.report.Runs++
	s.remote.begin(s.past)
	t, err := s.newTrial(killing)
	if err != nil {
		return nil, err
	}
	err = t.play(ctx)
	t.halt((*life).kill)
	dirt := t.clean(context.WithoutCancel(ctx))
	s.rules.AddAll(t.journal.out.rules)
	switch {
	case dirt == nil:
	case t.journal.good():
		err = errors.Join(err, fmt.Errorf("cleaning up after the trial: %w", dirt))
	default:
		t.journal.out.finding.Text += fmt.Sprintf("\n  and cleaning up: %v", dirt)
	}
	return t, err
}

// compare compares the states of have, a trial, with the states of want,
// another one, at each rest. It returns a finding about have if they differ,
// and otherwise nil. other is nil or a third trial, which should end like want:
// fields in which want and other differ are ignored.
func (s *smoker) compare(want, have, other *trial) *report.Finding {
	states := s.statesOf(want)
	masks := make([]map[string]bool, len(states))
	if other != nil {
		for i, o := range s.statesOf(other) {
			masks[i] = states[i].State().Mask(o.State())
		}
	}
	rest, differs := state.Compare(s.statesOf(have), states, masks)
	if differs == nil {
		return nil
	}
	return &report.Finding{
		Oracle: report.State, Reason: report.ReasonFor(have.journal.plan, differs.Seen),
		UpTo: have.journal.out.restedAt[rest], Text: differs.Text,
	}
}

// statesOf returns the state at each rest. The states contain only resources
// that at least one trial follows.
func (s *smoker) statesOf(t *trial) []*state.Rest {
	var states []*state.Rest
	for _, objects := range t.rests {
		objects = slices.DeleteFunc(slices.Clone(objects),
			func(o state.Located) bool { return !s.mirror.follows(o.Resource) })
		states = append(states, state.NewRest(objects, state.NewIgnore(s.c.Ignore...)))
	}
	return states
}

// fail records the finding of a trial in the report, if there is one, and
// reports whether there was one.
func (s *smoker) fail(t *trial) bool {
	out := t.journal.out
	if out.finding == nil {
		return false
	}
	setting := "on a real server, undisturbed"
	if t.killing {
		setting = fmt.Sprintf("on a real server, killed after each write (%d kills), and down at each step", t.journal.kills)
	}
	s.report.Oracle, s.report.Trace = out.finding.Oracle, out.finding.Trace(out.lines)
	s.report.Reason = string(out.finding.Reason)
	s.report.Failure = out.finding.Words(setting+": "+out.finding.Text, s.report.Trace)
	if len(s.c.Actors) > 0 {
		s.report.Failure += "  note: Case.Actors do not act on a real server\n"
	}
	return true
}
