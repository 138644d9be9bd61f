package informer_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

// client-go calls the credential plugin of a kubeconfig inside of the transport,
// and without the context of the request. A plugin that does not return holds
// the request beyond every deadline.
func TestARequestThatIgnoresItsDeadlineIsAProblemUntilItReturns(t *testing.T) {
	released := make(chan struct{})
	held := func(r *http.Request) (*http.Response, error) {
		<-released
		return open(r)
	}
	beginning(t, held, func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod]) {
		released = make(chan struct{}) // of this bubble
		<-time.After(time.Minute)
		g.Expect(pods.Status().Problems).To(BeEmpty(), "a short outage is nothing to tell of")
		<-time.After(9 * time.Minute)
		s := pods.Status()
		g.Expect(s.Synced).To(BeTrue(), "the cache still serves")
		g.Expect(s.Problems).To(HaveLen(1))
		g.Expect(s.Problems[0].Cause).To(Equal("no answer"))
		g.Expect(s.Problems[0].Reason).To(MatchRegexp(`^watching: no answer for 9m5\ds$`))
		g.Expect(s.Problems[0].Remedy).To(ContainSubstring("credential plugin"))
		g.Expect(time.Since(s.Problems[0].Since)).To(BeNumerically("~", 10*time.Minute, 10*time.Second))
		g.Expect(pods.IsDeleted(t.Context(), types.NamespacedName{Namespace: "d", Name: "a"})).To(BeFalse())

		server.set(open)
		close(released)
		<-time.After(time.Minute)
		g.Expect(pods.Status().Problems).To(BeEmpty(), "it heals by itself")
	})
}

func TestARequestForAReferenceThatDoesNotReturnIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.create("b", "1")
		released := make(chan struct{})
		w.mu.Lock()
		w.answered = func(selector string) {
			if selector == "metadata.name=a" {
				<-released
			}
		}
		w.mu.Unlock()
		w.hold("a", "b")
		<-time.After(50 * time.Second)
		w.Expect(w.secrets.Status().Problems).To(BeEmpty(), "a short outage is nothing to tell of")
		<-time.After(20 * time.Second)
		problems := w.secrets.Status().Problems
		w.Expect(problems).To(HaveLen(1))
		w.Expect(problems[0].Object).To(ContainSubstring("/a"))
		w.Expect(problems[0].Cause).To(Equal("no answer"))
		w.Expect(w.value("b")).To(Equal("1"), "the others are cached")

		close(released)
		<-time.After(time.Minute)
		w.Expect(w.secrets.Status().Problems).To(BeEmpty(), "it heals by itself")
		w.Expect(w.value("a")).To(Equal("1"))
		w.Expect(w.stop()).To(Succeed())
	})
}
