package operator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

type noAnswer struct{}

func (noAnswer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no answer") }

// A transport with a new certificate stays in client-go's cache of transports.
func TestEachQuestionAboutNewCredentialsUsesTheSameTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		k := &kubeconfig{first: &rest.Config{Host: "https://server", BearerToken: "a"}, cluster: identity{uid: "1", isAsked: true}}
		f := &follower{kubeconfig: k, next: noAnswer{}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		change := func(token string) *login {
			<-time.After(readInterval)
			g.Expect(f.change(req, &rest.Config{Host: "https://server", BearerToken: token})).To(MatchError(errUnknownCluster))
			return f.refused.login
		}
		b := change("b")
		g.Expect(change("b")).To(BeIdenticalTo(b))
		g.Expect(change("c")).NotTo(BeIdenticalTo(b))
	})
}

// A request whose caller has given up shows nothing about the server. The next
// request asks again.
func TestARequestThatHasEndedDoesNotDelayNewCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		k := &kubeconfig{first: &rest.Config{Host: "https://server", BearerToken: "a"}, cluster: identity{uid: "1", isAsked: true}}
		f := &follower{kubeconfig: k, next: endable{}}
		changed := &rest.Config{Host: "https://server", BearerToken: "b"}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		cancel()
		g.Expect(f.change(req, changed)).To(MatchError(context.Canceled))
		<-time.After(retryInterval)
		g.Expect(f.change(req.WithContext(t.Context()), changed)).To(MatchError(ContainSubstring("no answer")))
		<-time.After(retryInterval)
		g.Expect(f.change(req.WithContext(t.Context()), changed)).To(MatchError(ContainSubstring("no answer")))
		g.Expect(f.refused.at).To(Equal(time.Now().Add(-retryInterval)), "the last one was not sent")
	})
}

// endable is a server that does not answer. It sees when a request has ended.
type endable struct{}

func (endable) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, cmp.Or(r.Context().Err(), errors.New("no answer"))
}
