package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

// The end of a wait causes no event of the watch, so the keeper must set a
// timer for it.
func TestTheNextDecisionIsDueWhenAWaitEnds(t *testing.T) {
	g := NewWithT(t)
	m, now := record.NewMember("", nil), time.Now()
	m.Join("a_1", record.Timing{
		LeaseDuration: 15 * time.Second, RequestTimeout: 5 * time.Second, RetryPeriod: 2 * time.Second,
	})
	k := &keeper{Replica: fleet.New(fleet.Records{}, nil, 2, nil, m), free: map[int]time.Time{}}
	due := func() time.Duration { return k.due(now).Sub(now) }
	g.Expect(due()).To(Equal(2 * time.Second))
	k.free[0] = now.Add(-7 * time.Second)
	g.Expect(due()).To(Equal(2*time.Second), "the target of the slot has been waited for")
	k.free[0] = now.Add(-6 * time.Second)
	g.Expect(due()).To(Equal(time.Second))
	k.View.Quiet[1] = now.Add(900 * time.Millisecond)
	g.Expect(due()).To(Equal(900 * time.Millisecond))
	k.View.Members["b"] = record.Observation{LastHolder: "b_1.1", Since: now.Add(-14200 * time.Millisecond)}
	g.Expect(due()).To(Equal(800 * time.Millisecond))
}

func TestAFunctionEndsWithItsContext(t *testing.T) {
	k := &keeper{Replica: &fleet.Replica{Records: fleet.Records{Namespace: "default", Name: "test"}}}
	broken := errors.New("broken")
	for _, end := range []error{
		nil, context.Canceled, ErrMoved, leader.ErrStopping, leader.ErrLost, leader.ErrFenced, broken,
	} {
		g := NewWithT(t)
		before := k.runError(3, false, end)
		g.Expect(before).To(MatchError(HavePrefix(`working on slot 3 of "default/test": `)), "it has returned too early")
		g.Expect(end == nil || errors.Is(before, end)).To(BeTrue())
		if end == nil {
			g.Expect(k.runError(3, true, end)).To(Succeed())
			continue
		}
		after := k.runError(3, true, fmt.Errorf("reconciling: %w", end))
		if errors.Is(end, broken) {
			g.Expect(after).To(MatchError(broken))
		} else {
			g.Expect(after).To(Succeed())
		}
	}
}

// Functions of several slots may fail at the same time, and among other events.
func TestNoErrorOfAFunctionIsLost(t *testing.T) {
	g := NewWithT(t)
	k := &keeper{watcher: &fleet.Watcher{}, reports: make(chan func() error, 2*maxPending)}
	var errs []error
	for n := range maxPending + 1 {
		err := fmt.Errorf("slot %d is broken", n)
		errs = append(errs, err)
		k.reports <- func() error { return err }
	}
	for _, want := range [][]error{errs[:maxPending], errs[maxPending:]} {
		g.Expect(k.drain()).To(MatchError(errors.Join(want...).Error()))
	}
	g.Expect(k.drain()).To(Succeed())
}
