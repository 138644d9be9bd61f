package informer_test

import (
	"net/http"
	"sync"
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
	released := sync.OnceValue(func() chan struct{} { return make(chan struct{}) }) // in the test's bubble
	held := func(r *http.Request) (*http.Response, error) {
		<-released()
		return open(r)
	}
	beginning(t, held, func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod]) {
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
		close(released())
		<-time.After(time.Minute)
		g.Expect(pods.Status().Problems).To(BeEmpty(), "it heals by itself")
	})
}

func TestARequestForAReferenceThatDoesNotReturnIsAProblem(t *testing.T) {
	for name, c := range map[string]struct {
		above  int    // Options.WatchNamespaceAbove
		held   string // the field selector of the list that does not return
		object string
	}{
		"its own watch":                         {0, "metadata.name=a", "default/a"},
		"its list beside a shared watch":        {1, "metadata.name=a", "default/a"},
		"the list before the namespace's watch": {1, "", `namespace "default"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: c.above})
				w.create("a", "1")
				w.create("b", "1")
				released := make(chan struct{})
				w.mu.Lock()
				w.answered = func(selector string) {
					if selector == c.held {
						<-released
					}
				}
				w.mu.Unlock()
				w.hold("a", "b")
				<-time.After(50 * time.Second)
				w.Expect(w.secrets.Status().Problems).To(BeEmpty(), "a short outage is nothing to tell of")
				<-time.After(20 * time.Second)
				s := w.secrets.Status()
				w.Expect(s.Problems).To(HaveLen(1))
				w.Expect(s.Problems[0].Object).To(Equal(c.object))
				w.Expect(s.Problems[0].Cause).To(Equal("no answer"))
				w.Expect(s.LastError).To(HavePrefix("watching Secret "))
				w.Expect(s.LastError).NotTo(ContainSubstring(`/"`))
				if c.held != "" {
					w.Expect(w.value("b")).To(Equal("1"), "the others are cached")
				}

				close(released)
				<-time.After(time.Minute)
				w.Expect(w.secrets.Status().Problems).To(BeEmpty(), "it heals by itself")
				w.Expect(w.value("a")).To(Equal("1"))
				w.Expect(w.stop()).To(Succeed())
			})
		})
	}
}
