package operator

import (
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
		k := &kubeconfig{first: &rest.Config{Host: "https://server", BearerToken: "a"}, cluster: identity{"1", true}}
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
