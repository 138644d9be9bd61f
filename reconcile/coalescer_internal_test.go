package reconcile

import (
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestCallsForThoseWhoAskAtOnceAreNeverTwoAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var running sync.WaitGroup
		begun, answer := 0, make(chan error)
		c := coalescer{running: &running, do: func() error {
			begun++
			return <-answer
		}}
		first := c.join()
		g.Expect(c.join()).To(BeIdenticalTo(first))
		synctest.Wait()
		second := c.join()
		g.Expect(c.join()).To(BeIdenticalTo(second), "the first has begun already")
		synctest.Wait()
		g.Expect(begun).To(Equal(1))
		answer <- nil
		answer <- nil
		g.Expect(first.wait(t.Context())).To(Succeed())
		g.Expect(second.wait(t.Context())).To(Succeed())
		running.Wait()
		g.Expect(begun).To(Equal(2))
	})
}
