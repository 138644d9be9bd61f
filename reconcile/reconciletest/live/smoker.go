package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
)

// smoker makes the runs of one Smoke.
type smoker struct {
	c       *reconciletest.Case
	o       Options
	config  *rest.Config // the administrator's
	program *rest.Config
	remote  *remote
	mirror  *mirror
	stop    func() // the mirror
	past    *past
	report  *reconciletest.Report
	rules   rules.Set
}

func newSmoker(ctx context.Context, c *reconciletest.Case, config *rest.Config, o Options) (*smoker, error) {
	s := &smoker{
		c: c, o: o, config: rest.CopyConfig(config), past: newPast(), report: &reconciletest.Report{}, rules: rules.Set{},
		remote: &remote{},
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

// begin waits for the watches, and refuses to take what is there for what the case will make.
func (s *smoker) begin(ctx context.Context) error {
	until := time.Now().Add(s.o.Timeout)
	for missing := s.mirror.unsynced(); len(missing) > 0; missing = s.mirror.unsynced() {
		if time.Now().After(until) || !wait(ctx, glance) {
			return fmt.Errorf("watching the server: no list within %v of %s", s.o.Timeout, strings.Join(missing, ", "))
		}
	}
	for _, c := range s.mirror.take() {
		s.past.advance(c)
	}
	return s.remote.refuse(ctx, s.c)
}

// try makes one run, and puts the server back into its former state.
func (s *smoker) try(ctx context.Context, killing bool) (*trial, error) {
	s.report.Runs++
	s.remote.begin(s.past)
	t, err := s.newTrial(killing)
	if err != nil {
		return nil, err
	}
	err = t.play(ctx)
	t.halt((*life).kill)
	t.hear()
	t.tell(func() { t.over = true })
	s.rules.AddAll(t.out.rules)
	dirt := t.clean(context.WithoutCancel(ctx))
	switch {
	case dirt == nil:
	case t.good():
		err = errors.Join(err, fmt.Errorf("cleaning up: %w", dirt))
	default:
		t.out.finding.Text += fmt.Sprintf("\n  and cleaning up: %v", dirt)
	}
	return t, err
}

// clean deletes what was made, a namespace after what is in it, and gives what was changed its content back.
func (t *trial) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.s.o.Timeout)
	defer cancel()
	t.mu.Lock()
	writes := slices.Clone(t.writes)
	t.mu.Unlock()
	var made []*write
	for _, w := range slices.Backward(writes) {
		if w.created {
			made = append(made, w)
		}
	}
	for _, w := range made {
		if err := t.s.remote.remove(ctx, w); err != nil {
			return fmt.Errorf("deleting %s: %w", w.title(), err)
		}
	}
	for _, w := range made {
		for !t.s.remote.isGone(ctx, w) {
			if !wait(ctx, glance) {
				return fmt.Errorf("waiting for the end of %s: %w (%s)", w.title(), ctx.Err(), report.NoControllers)
			}
		}
	}
	return errors.Join(t.restore(ctx, writes), t.becalm(ctx))
}

// restore looks at what was there before and was written.
func (t *trial) restore(ctx context.Context, writes []*write) error {
	done := map[types.UID]bool{}
	for _, w := range writes {
		had := t.s.remote.before[w.uid]
		if had == nil || done[w.uid] {
			continue
		}
		done[w.uid] = true
		for _, res := range t.s.remote.resources {
			if res.GVR().GroupResource() != w.call.Resource.GroupResource() {
				continue
			}
			if err := t.s.remote.put(ctx, res, had); err != nil {
				return err
			}
		}
	}
	return nil
}

// becalm waits until the cluster has done what is left, and the watches show it.
func (t *trial) becalm(ctx context.Context) error {
	t.tell(func() { t.leases = map[types.NamespacedName]*holding{} })
	for why := t.awaited(); why != ""; why = t.awaited() {
		if !wait(ctx, glance) {
			return fmt.Errorf("waiting for the cluster: %s (%s)", why, report.NoControllers)
		}
	}
	for _, c := range t.s.mirror.take() {
		t.s.past.advance(c)
	}
	return nil
}
