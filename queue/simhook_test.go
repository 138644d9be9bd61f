package queue_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
)

// Queues that are made while a simulator runs leave to it what is left to chance, but not what their options say.
func TestASimulatorDecidesForQueues(t *testing.T) {
	g := NewWithT(t)
	asked, own := map[string]int{}, 0
	count := func() float64 { own++; return 0 }
	end := simhook.Use(&simhook.Hooks{
		Gate:   func(name string) func(context.Context) { return func(context.Context) { asked["gate of "+name]++ } },
		Jitter: func() float64 { asked["jitter"]++; return 0 },
	})
	fails := func(o *queue.Options[int]) {
		q, err := queue.New(o)
		g.Expect(err).NotTo(HaveOccurred())
		q.Add(1)
		item, err := q.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		item.Retry()
	}
	fails(&queue.Options[int]{Name: "keys"})
	want := map[string]int{"gate of keys": 1, "jitter": 1}
	g.Expect(asked).To(Equal(want))

	fails(&queue.Options[int]{Backoff: queue.Backoff{Rand: count}, BeforeGet: func(context.Context) { count() }})
	end()
	fails(nil)
	g.Expect(asked).To(Equal(want))
	g.Expect(own).To(Equal(2))
}
