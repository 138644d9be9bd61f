package queue_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/homeostat/homeostat/queue"
)

// made returns a queue with the given options, which must be good.
func made(o *queue.Options[string]) *queue.Queue[string] {
	GinkgoHelper()
	q, err := queue.New(o)
	Expect(err).NotTo(HaveOccurred())
	return q
}

// next returns the next item of a queue that is not empty.
func next(ctx context.Context, q *queue.Queue[string]) queue.Item[string] {
	GinkgoHelper()
	Expect(q.Len()).To(BeNumerically(">", 0), "nothing waits")
	item, err := q.Get(ctx)
	Expect(err).NotTo(HaveOccurred())
	return item
}

// drained returns the keys of a queue in the order of their hand-outs.
func drained(ctx context.Context, q *queue.Queue[string]) []string {
	GinkgoHelper()
	var keys []string
	for q.Len() > 0 {
		item := next(ctx, q)
		keys = append(keys, item.Key())
		item.Done()
	}
	return keys
}

var _ = Describe("Queue", func() {
	var q *queue.Queue[string]

	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
		q = made(nil)
	})

	When("keys are added", func() {
		It("hands out a key once, however often it was added", func(ctx SpecContext) {
			for range 5 {
				q.Add("a")
			}
			Expect(q.Len()).To(Equal(1))
			Expect(drained(ctx, q)).To(Equal([]string{"a"}))
		})

		It("hands out keys in the order of their first addition", func(ctx SpecContext) {
			for _, key := range []string{"c", "a", "b", "a", "c"} {
				q.Add(key)
			}
			Expect(drained(ctx, q)).To(Equal([]string{"c", "a", "b"}))
		})

		It("keeps many keys apart", func(ctx SpecContext) {
			seen := map[string]int{}
			for i := range 20_000 {
				q.Add(GinkgoT().Name() + time.Duration(i).String())
			}
			for _, key := range drained(ctx, q) {
				seen[key]++
			}
			Expect(seen).To(HaveLen(20_000))
		})
	})

	When("a worker holds a key", func() {
		var held queue.Item[string]

		BeforeEach(func(ctx SpecContext) {
			q.Add("a")
			held = next(ctx, q)
		})

		It("does not hand it out to another worker", func() {
			q.Add("a")
			Expect(q.Len()).To(BeZero())
		})

		It("hands it out once more if it was added meanwhile", func(ctx SpecContext) {
			q.Add("a")
			q.Add("a")
			held.Done()
			Expect(drained(ctx, q)).To(Equal([]string{"a"}))
		})

		It("does not hand it out again if it was not", func() {
			held.Done()
			Expect(q.Len()).To(BeZero())
		})

		It("takes the first end of an item and ignores later ones", func(ctx SpecContext) {
			held.Done()
			q.Add("a")
			again := next(ctx, q)
			held.Done()
			held.Retry()
			held.After(0)
			held.RetryAfter(0)
			held.Hold(time.Hour)
			Expect(held.Causes()).To(BeNil())
			Expect(q.Len()).To(BeZero())
			q.Add("a")
			Expect(q.Len()).To(BeZero(), "the second turn still holds the key")
			again.Done()
			Expect(q.Len()).To(Equal(1))
		})
	})

	It("ignores the ends of the zero item", func() {
		var none queue.Item[string]
		none.Done()
		none.Retry()
		none.RetryAfter(time.Second)
		none.After(time.Second)
		none.Hold(time.Second)
		Expect(none.Causes()).To(BeNil())
	})

	When("the context of Get ends", func() {
		It("returns its error although keys wait", func(ctx SpecContext) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			q.Add("a")
			_, err := q.Get(ended)
			Expect(err).To(MatchError(context.Canceled))
			Expect(q.Len()).To(Equal(1))
		})

		It("returns its error while it waits", func(ctx SpecContext) {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err := q.Get(short)
			Expect(err).To(MatchError(context.DeadlineExceeded))
		})
	})

	When("it is drained", func() {
		It("hands out what waits, and then says that it has stopped", func(ctx SpecContext) {
			q.Add("a")
			q.AddWithOptions("b", queue.AddOptions{After: time.Millisecond})
			q.Drain()
			q.Add("c")
			Expect(drained(ctx, q)).To(Equal([]string{"a"}))
			_, err := q.Get(ctx)
			Expect(err).To(MatchError(queue.ErrStopped))
		})

		It("hands out a held key again that was added before", func(ctx SpecContext) {
			q.Add("a")
			held := next(ctx, q)
			q.Add("a")
			q.Drain()
			held.Done()
			Expect(drained(ctx, q)).To(Equal([]string{"a"}))
		})

		It("drops retries, timers and holds", func(ctx SpecContext) {
			for _, key := range []string{"retry", "after", "hold"} {
				q.Add(key)
			}
			retry, after, hold := next(ctx, q), next(ctx, q), next(ctx, q)
			q.Add("hold")
			hold.Hold(time.Hour)
			q.Drain()
			retry.Retry()
			after.After(time.Nanosecond)
			hold.Done()
			_, err := q.Get(ctx)
			Expect(err).To(MatchError(queue.ErrStopped))
			Expect(q.Entries(10)).To(BeEmpty())
		})

		It("may be drained and stopped again", func(ctx SpecContext) {
			q.Add("a")
			q.Drain()
			q.Drain()
			q.Stop()
			q.Stop()
			q.Drain()
			_, err := q.Get(ctx)
			Expect(err).To(MatchError(queue.ErrStopped))
		})
	})

	When("it is stopped", func() {
		It("drops what waits, and lets what is held end", func(ctx SpecContext) {
			q.Add("a")
			q.Add("b")
			q.AddWithOptions("c", queue.AddOptions{After: time.Second})
			held := next(ctx, q)
			q.Add("a")
			q.Stop()
			q.Add("d")
			Expect(q.Len()).To(BeZero())
			Expect(q.Entries(10)).To(HaveLen(1))
			held.Retry()
			Expect(q.Entries(10)).To(BeEmpty())
			_, err := q.Get(ctx)
			Expect(err).To(MatchError(queue.ErrStopped))
		})
	})

	It("names every fault of its options", func() {
		_, err := queue.New(&queue.Options[string]{
			Name: "bad", MinInterval: -1, Backoff: queue.Backoff{Base: -2, Cap: -3},
		})
		Expect(err).To(MatchError(And(
			ContainSubstring(`making queue "bad"`),
			ContainSubstring("Options.MinInterval is -1ns"),
			ContainSubstring("Options.Backoff.Base is -2ns"),
			ContainSubstring("Options.Backoff.Cap is -3ns"),
		)))
	})

	It("has the name it was given", func() {
		Expect(made(&queue.Options[string]{Name: "nodes"}).Name()).To(Equal("nodes"))
	})

	DescribeTable("names what it counts by",
		func(value interface{ String() string }, name string) { Expect(value.String()).To(Equal(name)) },
		Entry(nil, queue.Live, "live"),
		Entry(nil, queue.Retrying, "retrying"),
		Entry(nil, queue.Background, "background"),
		Entry(nil, queue.Lane(9), "lane(9)"),
		Entry(nil, queue.Waiting, "waiting"),
		Entry(nil, queue.Delayed, "delayed"),
		Entry(nil, queue.Held, "held"),
		Entry(nil, queue.State(9), "unknown"),
	)
})
