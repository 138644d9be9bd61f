package informer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

var _ = Describe("Informer against a scripted server", func() {
	var (
		server *script
		nodes  *informer.Informer[*corev1.Node]
		told   *record
		begin  func(ctx context.Context, steps ...step)
	)

	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
		begin = func(ctx context.Context, steps ...step) {
			server, told = newScript(steps...), &record{}
			listener := httptest.NewServer(server)
			client, done := clientTo(listener.URL, nil)
			nodes = informer.For(client.CoreV1().Nodes(), &informer.Options{
				BackoffBase: time.Millisecond, BackoffCap: 10 * time.Millisecond, StreamIdle: 20 * time.Millisecond,
			})
			nodes.Handle(told.hear)
			ctx, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- nodes.Run(ctx) }()
			DeferCleanup(func() {
				cancel()
				Expect(<-ended).To(Succeed())
				done()
				listener.Close()
			})
		}
	})

	When("the list is streamed", func() {
		It("has synced at the bookmark, and goes on with the same watch", func(ctx SpecContext) {
			begin(ctx, stream(hold, added(versioned("b", "1", "5")), added(versioned("a", "2", "7")), listEnd("10"),
				modified(versioned("b", "1", "11")), deleted(versioned("a", "2", "12")), bookmark("20")))
			Expect(nodes.WaitForSync(ctx)).To(Succeed())
			Expect(nodes.WaitFor(ctx, "20")).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/2", "known b/1", "updated b/1", "deleted a/2"}))
			Expect(server.asked()).To(Equal([]string{"stream"}))
			Expect(nodes.LastResourceVersion()).To(Equal("20"))
		}, SpecTimeout(10*time.Second))
	})

	When("the server cannot stream lists", func() {
		It("lists", func(ctx SpecContext) {
			begin(ctx, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
				list("10", versioned("a", "1", "5")), stream(hold, modified(versioned("a", "1", "11"))))
			Expect(nodes.WaitFor(ctx, "11")).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/1", "updated a/1"}))
			Expect(server.asked()).To(Equal([]string{"stream", "list 0", "watch 10"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the server never sends the bookmark", func() {
		It("lists", func(ctx SpecContext) {
			begin(ctx, stream(hold, added(versioned("a", "1", "5"))),
				list("10", versioned("a", "1", "5"), versioned("b", "2", "6")), hold)
			Expect(nodes.WaitForSync(ctx)).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/1", "known b/2"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the list is forbidden", func() {
		forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)

		It("says so, and syncs once it is allowed", func(ctx SpecContext) {
			steps := make([]step, 6)
			for n := range steps {
				steps[n] = forbidden
			}
			gate := make(chan struct{})
			steps = append(steps, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-gate:
				case <-r.Context().Done():
				}
				forbidden(w, r)
			})
			begin(ctx, append(steps, list("10", versioned("a", "1", "5")), hold)...)
			Eventually(server.asked).Should(HaveLen(7))
			short, cancel := context.WithCancel(ctx)
			cancel()
			Expect(nodes.WaitForSync(short)).To(MatchError(And(ContainSubstring("first list of nodes"),
				ContainSubstring("Forbidden"), ContainSubstring("verbs list and watch"))))
			Expect(nodes.HasSynced()).To(BeFalse())
			close(gate)
			Expect(nodes.WaitForSync(ctx)).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/1"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the watch expires (410)", func() {
		It("hands on what vanished as deleted, once, and nothing that stayed", func(ctx SpecContext) {
			expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
			begin(ctx,
				stream(end, added(versioned("a", "1", "5")), added(versioned("b", "2", "6")), added(versioned("c", "3", "7")),
					listEnd("10"), expired),
				stream(hold, added(versioned("a", "1", "5")), added(versioned("c", "4", "15")), added(versioned("d", "5", "16")),
					listEnd("20"), modified(versioned("a", "1", "21"))))
			Expect(nodes.WaitFor(ctx, "21")).To(Succeed())
			Expect(told.heard()).To(Equal([]string{
				"known a/1", "known b/2", "known c/3",
				"deleted b/2", "deleted c/3", "added c/4", "added d/5", "updated a/1",
			}))
			Expect(server.asked()).To(Equal([]string{"stream", "stream 10"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the connection drops", func() {
		It("goes on where it was", func(ctx SpecContext) {
			begin(ctx,
				stream(drop, added(versioned("a", "1", "5")), listEnd("10"), modified(versioned("a", "1", "11"))),
				stream(hold, deleted(versioned("a", "1", "12"))))
			Expect(nodes.WaitFor(ctx, "12")).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/1", "updated a/1", "deleted a/1"}))
			Expect(server.asked()).To(Equal([]string{"stream", "watch 11"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the resource disappears and appears again", func() {
		It("hands on the deletions when it knows", func(ctx SpecContext) {
			gone := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
			begin(ctx, gone, gone, gone, gone,
				stream(drop, added(versioned("a", "1", "5")), listEnd("10"),
					event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))),
				gone, gone, stream(hold, added(versioned("a", "2", "30")), listEnd("30")))
			Expect(nodes.WaitFor(ctx, "30")).To(Succeed())
			Expect(told.heard()).To(Equal([]string{"known a/1", "deleted a/1", "added a/2"}))
		}, SpecTimeout(10*time.Second))
	})

	When("the list is slow", func() {
		It("has not synced before it is complete", func(ctx SpecContext) {
			gate := make(chan struct{})
			begin(ctx, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
				func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-gate:
					case <-r.Context().Done():
					}
					list("10", versioned("a", "1", "5"))(w, r)
				}, hold)
			Eventually(server.asked).Should(HaveLen(2))
			short, cancel := context.WithCancel(ctx)
			cancel()
			Expect(nodes.WaitForSync(short)).To(MatchError(ContainSubstring("listing: no answer for")))
			close(gate)
			Expect(nodes.WaitForSync(ctx)).To(Succeed())
			Expect(nodes.Snapshot().Len()).To(Equal(1))
		}, SpecTimeout(10*time.Second))
	})
})
