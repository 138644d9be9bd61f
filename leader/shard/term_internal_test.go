package shard

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

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
