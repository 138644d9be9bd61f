package reconciletest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Of virtual time.
const (
	nap     = time.Hour
	staying = 30 * time.Minute
)

// stay lets time pass. Nothing but times may change.
func (r *run) stay(ctx context.Context) {
	until := time.Now().Add(staying)
	r.live(ctx, func() time.Time { return until })
	before := r.out.states[len(r.out.states)-1]
	after := state.OfServer(r.sim, r.c.Ignore)
	if diff := after.Diff(before, nil); len(diff) > 0 {
		r.find(report.Stay, fmt.Sprintf("it was at rest, and within %v it has changed (- before, + after):\n    %s",
			staying, strings.Join(diff, "\n    ")))
	}
}

// disturbRest does what the plan has for this rest, and comes to rest again.
func (r *run) disturbRest(ctx context.Context) {
	rest := len(r.out.states) + 1
	for _, d := range r.p {
		if d.Index != rest || r.out.finding != nil {
			continue
		}
		switch d.At {
		case plan.Restarted:
			r.quiet = d.N == 0
			r.reboot(ctx, d.Words(), func() { r.freeze(d.N) })
		case plan.Unsynced:
			r.quiet = true
			r.reboot(ctx, d.Words(), func() { r.delay(d.N) })
		case plan.Asleep:
			r.line("ASLEEP    " + nap.String())
			r.sched.Wait(nap)
			r.settle(ctx)
		}
	}
}

// reboot restarts the program in another world.
func (r *run) reboot(ctx context.Context, why string, before func()) {
	r.line("restart   the program: " + why)
	r.haltAll()
	before()
	r.bootAll(ctx)
	r.settle(ctx)
	r.quiet, r.wanted = false, nil
}

// freeze makes the caches of the server those of n writes ago, for a while.
func (r *run) freeze(n int) {
	if n == 0 || len(r.versions) == 0 {
		return
	}
	version := r.versions[max(len(r.versions)-n, 0)] - 1
	for _, p := range r.replicas {
		r.sim.Freeze(p.client, version)
	}
	r.wanted = map[types.UID]bool{}
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			r.wanted[o.GetUID()] = true
		}
	}
	r.frozen = time.Now().Add(r.o.Lag)
}

// thaw ends it.
func (r *run) thaw() {
	if r.frozen.IsZero() || time.Now().Before(r.frozen) {
		return
	}
	r.frozen = time.Time{}
	r.line("thaw      the caches see what happened since")
	for _, p := range r.replicas {
		r.sim.Thaw(p.client)
	}
}

// delay makes the lists of the n-th of the watched resources come late.
func (r *run) delay(n int) {
	watched := slices.Sorted(maps.Keys(r.out.watched))
	if n < 1 || n > len(watched) {
		return
	}
	r.late, r.lateUntil = watched[n-1], time.Now().Add(r.o.Lag)
	r.line("HELD BACK lists of " + r.late)
}

// drift deletes or edits an output, if the plan says so.
func (r *run) drift(ctx context.Context) {
	for i, o := range r.out.outputs {
		steps := []struct {
			at byte
			do Step
		}{{plan.Deleted, Delete(o.resource, o.key)}, {plan.Edited, edit(o)}}
		for _, s := range steps {
			if _, now := r.p.Find(s.at, i+1); !now || r.out.finding != nil {
				continue
			}
			r.line("others    " + s.do.Name)
			r.progress = time.Now()
			if err := s.do.Do(ctx, r.world); err != nil && !apierrors.IsNotFound(err) {
				r.line(fmt.Sprint("  ", err))
			}
			r.settle(ctx)
		}
	}
}
