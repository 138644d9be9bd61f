package reconcile

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

// lost is a call that was abandoned and has not returned.
func lost(t *testing.T) call {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return &openCall{Context: ctx, description: "the call"}
}

func TestGivingUpNamesTheCallsThatWereAbandonedOnce(t *testing.T) {
	g := NewWithT(t)
	var marked, reported int
	w := newWatchdog(func(call, string) { marked++ }, func(_ call, _, _ string) { reported++ })
	s := w.register()
	w.giveUp(nil)
	g.Expect(w.gaveUp).To(BeEmpty(), "no call is under way")
	s.begin(&openCall{Context: t.Context(), description: "the call"})
	w.giveUp(nil)
	g.Expect(w.gaveUp).To(BeEmpty(), "its context has not ended")
	g.Expect(w.stuck()).To(BeEmpty())
	s.end()
	s.begin(lost(t))
	w.register().begin(lost(t))
	w.giveUp(nil)
	w.giveUp(nil) // a slot and the controller have timers of their own
	g.Expect([]int{marked, reported, len(w.stuck())}).To(Equal([]int{2, 2, 2}))
	err := <-w.gaveUp
	g.Expect(errors.Is(err, ErrGraceExpired)).To(BeTrue())
	g.Expect(err).To(MatchError(MatchRegexp("(?s)the call has not returned.*the call has not returned")))
	g.Expect(w.gaveUp).To(BeEmpty())
	s.end()
	g.Expect(w.stuck()).To(HaveLen(1))
}

// A program may have more goroutines than fit in a dump of a megabyte.
func TestTheStackOfACallIsFoundAmongMany(t *testing.T) {
	g := NewWithT(t)
	w := newWatchdog(nil, nil)
	release, ready := make(chan struct{}), make(chan *worker)
	defer close(release)
	for range 5000 {
		go func() { <-release }()
	}
	go func() {
		ready <- w.register()
		isLookedFor(release)
	}()
	s := <-ready
	g.Eventually(s.stack).Should(ContainSubstring("isLookedFor"))
	g.Expect((&worker{goroutine: []byte("goroutine 0 ")}).stack()).To(Equal("not found among the first stacks"))
}

//go:noinline
func isLookedFor(release chan struct{}) { <-release }
