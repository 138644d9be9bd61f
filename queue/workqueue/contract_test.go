package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A key that is added once without a delay and once with a delay is dispatched twice: Add neither waits for AddAfter " +
			"and AddRateLimited nor replaces them.": dispatchesForEach,
		"If a key has two delays, the earlier one counts.": inBubble(countsTheEarlier),
		"Only Forget forgets failures.":                    inBubble(forgets),
		"ShutDown drains the queue.":                       inBubble(drains),
		"ShutDownWithDrain also waits until every waiting or held key is done, or ShutDown is called.": func(t *testing.T) {
			synctest.Test(t, waitsForDone)
		},
	})
}

func inBubble(f func(g *WithT, q limited)) func(t *testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(NewWithT(t), adapted(t, nil, nil)) })
	}
}

func countsTheEarlier(g *WithT, q limited) {
	for _, delays := range [][2]time.Duration{{1, 2}, {2, 1}} {
		before := time.Now()
		q.AddAfter("a", delays[0]*time.Second)
		q.AddAfter("a", delays[1]*time.Second)
		key, _ := q.Get()
		g.Expect(time.Since(before)).To(Equal(time.Second))
		q.Done(key)
		<-time.After(time.Minute)
		g.Expect(q.Len()).To(BeZero())
	}
}

func forgets(g *WithT, q limited) {
	for range 3 {
		q.AddRateLimited("a")
		q.Add("a")
		for range 2 {
			key, _ := q.Get()
			q.Done(key)
		}
	}
	g.Expect(q.NumRequeues("a")).To(Equal(3))
	q.Forget("a")
	g.Expect(q.NumRequeues("a")).To(BeZero())
}

func drains(g *WithT, q limited) {
	q.Add("a")
	q.AddAfter("later", time.Second)
	q.ShutDown()
	q.Add("too late")
	key, shutdown := q.Get()
	g.Expect(key).To(Equal("a"))
	g.Expect(shutdown).To(BeFalse())
	q.Done(key)
	_, shutdown = q.Get()
	g.Expect(shutdown).To(BeTrue())
}

func waitsForDone(t *testing.T) {
	g, q := NewWithT(t), adapted(t, nil, nil)
	q.Add("held")
	q.Get()
	q.Add("waits")
	waits := blocked(q.ShutDownWithDrain)
	q.Get()
	q.Done("waits")
	g.Expect(waits()).To(BeTrue(), "a key is held")
	q.Done("held")
	g.Expect(waits()).To(BeFalse())

	q = adapted(t, nil, nil)
	q.Add("held")
	q.Get()
	waits = blocked(q.ShutDownWithDrain)
	g.Expect(waits()).To(BeTrue())
	q.ShutDown()
	g.Expect(waits()).To(BeFalse())
}
