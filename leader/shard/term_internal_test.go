package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader"
)

func TestAFunctionEndsWithItsContext(t *testing.T) {
	k := &keeper{replica: &replica{records: records{namespace: "default", name: "test"}}}
	broken := errors.New("broken")
	for _, end := range []error{nil, context.Canceled, ErrMoved, leader.ErrStopping, leader.ErrLost, leader.ErrFenced, broken} {
		g := NewWithT(t)
		before := k.fault(3, false, end)
		g.Expect(before).To(MatchError(HavePrefix(`working on slot 3 of "default/test": `)), "it has returned too early")
		g.Expect(end == nil || errors.Is(before, end)).To(BeTrue())
		if end == nil {
			g.Expect(k.fault(3, true, end)).To(Succeed())
			continue
		}
		after := k.fault(3, true, fmt.Errorf("reconciling: %w", end))
		if end == broken {
			g.Expect(after).To(MatchError(broken))
		} else {
			g.Expect(after).To(Succeed())
		}
	}
}

// Functions of several slots may fail at once, and among other events.
func TestNoErrorOfAFunctionIsLost(t *testing.T) {
	g := NewWithT(t)
	k := &keeper{watcher: &watcher{}, reports: make(chan func() error, 2*maxPending)}
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
