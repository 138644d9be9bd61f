package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
)

// Queues that are made while a simulator runs ask the simulator for random
// decisions, and other queues do not.
func TestASimulatorDecidesForQueues(t *testing.T) {
	asked := map[string]int{}
	end := simhook.Use(&simhook.Hooks{
		Gate:   func(name string) func(context.Context) { return func(context.Context) { asked["gate of "+name]++ } },
		Jitter: func() float64 { asked["jitter"]++; return 0 },
	})
	fails := func(b *fixture) {
		b.Add("a")
		b.take().Retry()
	}
	inVirtualTime(t, &queue.Options[string]{Name: "keys"}, fails)
	end()
	inVirtualTime(t, nil, fails)
	NewWithT(t).Expect(asked).To(Equal(map[string]int{"gate of keys": 1, "jitter": 1}))
}

// gated runs f with a queue that calls gate before it chooses a key.
func gated(t *testing.T, gate, f func(b *fixture)) {
	t.Helper()
	var b *fixture
	t.Cleanup(simhook.Use(&simhook.Hooks{
		Gate: func(string) func(context.Context) { return func(context.Context) { gate(b) } },
	}))
	inVirtualTime(t, nil, func(made *fixture) { b = made; f(b) })
}

func TestTheGateIsPassedWhenAKeyWaitsAndBeforeOneIsChosen(t *testing.T) {
	var waiting []int
	gated(t, func(b *fixture) {
		waiting = append(waiting, b.Len())
		b.Add("urgent")
	}, func(b *fixture) {
		got := b.asleep(b.t.Context())
		b.Expect(waiting).To(BeEmpty())
		b.AddWithOptions("idle", queue.AddOptions{Lane: queue.Background})
		synctest.Wait()
		b.Expect(got).To(Receive(HaveField("Key()", "urgent")))
		b.Expect(waiting).To(Equal([]int{1}))
	})
}

func TestEachKeyWakesACallerThatPassesTheGate(t *testing.T) {
	gated(t, func(*fixture) {}, func(b *fixture) {
		for i := range 5 {
			first, second := b.asleep(b.t.Context()), b.asleep(b.t.Context())
			b.Add(fmt.Sprint("a", i))
			b.Add(fmt.Sprint("b", i))
			synctest.Wait()
			b.Expect(first).To(Receive())
			b.Expect(second).To(Receive())
		}
	})
}

func TestACallerWhoseContextEndsInTheGateTakesNothing(t *testing.T) {
	var cancel context.CancelFunc
	gated(t, func(*fixture) { cancel() }, func(b *fixture) {
		ctx, end := context.WithCancel(b.t.Context())
		cancel = end
		b.Add("a")
		_, err := b.Get(ctx)
		b.Expect(err).To(MatchError(context.Canceled))
		b.Expect(b.Len()).To(Equal(1))
	})
}
