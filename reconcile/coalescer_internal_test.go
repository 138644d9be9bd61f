package reconcile

import (
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestCallersThatAskAtOnceShareOneCallAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var running sync.WaitGroup
		begun, answer := 0, make(chan error)
		c := coalescer{running: &running, call: func() error {
			begun++
			return <-answer
		}}
		c.busy = true // the goroutine begins below, not between the two
		first := c.join()
		g.Expect(c.join()).To(BeIdenticalTo(first))
		running.Go(c.run)
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
