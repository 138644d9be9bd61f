package informer_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// buffering is a proxy that answers lists, and holds the data of each watch
// back, as nginx does with proxy_buffering.
type buffering struct{ changed, healed atomic.Bool }

func (b *buffering) answer(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	list := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"}}`
	if b.changed.Load() {
		list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"20"},"items":[` +
			`{"metadata":{"namespace":"d","name":"new","uid":"1","resourceVersion":"20"}}]}`
	}
	switch {
	case query.Get("sendInitialEvents") != "":
		return refusing(http.StatusUnprocessableEntity, "Invalid")(r)
	case query.Get("watch") == "":
		return answered(r, http.StatusOK, runtime.ContentTypeJSON, list), nil
	case b.healed.Load():
		answer := answered(r, http.StatusOK, runtime.ContentTypeJSON, `{"type":"BOOKMARK","object":{"kind":"Pod",`+
			`"apiVersion":"v1","metadata":{"resourceVersion":"21"}}}`+"\n")
		answer.Body = &lasting{answer.Body, r.Context(), time.After(time.Second)}
		return answer, nil
	}
	return open(r)
}

func TestWatchesThatDeliverNothingAreReplacedByListsAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, proxy := NewWithT(t), &buffering{}
		pods := podsOf(t, proxy.answer)
		defer running(t.Context(), pods)()
		<-time.After(time.Minute)
		g.Expect(pods.HasSynced()).To(BeTrue())
		proxy.changed.Store(true)

		<-time.After(11 * time.Minute) // a watch lasts for 5 to 10 minutes, and half a minute of grace
		_, found := pods.Get(types.NamespacedName{Namespace: "d", Name: "new"})
		g.Expect(found).To(BeTrue(), "no watch will ever say so, so it is listed")
		g.Expect(pods.Status().Problems).To(BeEmpty(), "one silent watch may be a connection that was lost")

		<-time.After(15 * time.Minute)
		s := pods.Status()
		g.Expect(s.Problems).To(HaveLen(1))
		g.Expect(s.Problems[0].Cause).To(Equal("watch silent"))
		g.Expect(time.Since(s.LastActivity)).To(BeNumerically(">", 20*time.Minute), "opening a watch is no activity")
		g.Expect(s.Restores).To(BeZero())

		proxy.healed.Store(true)
		<-time.After(15 * time.Minute)
		synctest.Wait()
		s = pods.Status()
		g.Expect(s.Problems).To(BeEmpty())
		g.Expect(time.Since(s.LastActivity)).To(BeNumerically("<", time.Minute))
	})
}

func TestAQuietServerThatEndsItsWatchesInTimeIsNoProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := podsOf(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("sendInitialEvents") != "" {
				return refusing(http.StatusUnprocessableEntity, "Invalid")(r)
			}
			answer, err := open(r)
			if timeout, _ := time.ParseDuration(r.URL.Query().Get("timeoutSeconds") + "s"); timeout > 0 {
				answer.Body = &lasting{http.NoBody, r.Context(), time.After(timeout)}
			}
			return answer, err
		})
		defer running(t.Context(), pods)()
		<-time.After(2 * time.Hour)
		s := pods.Status()
		g.Expect(s.Lists).To(BeEquivalentTo(1))
		g.Expect(s.Watches).To(BeNumerically(">", 10))
		g.Expect(s.Problems).To(BeEmpty())
	})
}

// lasting is the body of a watch that delivers its data after a while, and ends.
type lasting struct {
	io.ReadCloser
	ctx   context.Context
	after <-chan time.Time // nil once the data may be read
}

func (l *lasting) Read(p []byte) (int, error) {
	if l.after != nil {
		select {
		case <-l.after:
			l.after = nil
		case <-l.ctx.Done():
			return 0, io.EOF
		}
	}
	return l.ReadCloser.Read(p)
}
