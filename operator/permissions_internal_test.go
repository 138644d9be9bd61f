package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/proxied"
)

// The end of the timeout cuts the last attempt off. What the attempts before it
// have found must not be lost: a certificate that is not accepted looked like a
// server that is down.
func TestTheReasonOfAStartThatFailsIsTheLastOneThatIsKnown(t *testing.T) {
	refused := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	byProxy := refusedByProxy(t)
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"a server that is down": {
			errors.New("connection refused"),
			"reaching the API server at https://api: no answer in 3s: check that it runs and that the kubeconfig names it: " +
				"connection refused",
		},
		"a certificate": {
			refused, "reaching the API server at https://api: no certificate that this program accepts in 3s: check the address " +
				"and the authority in the kubeconfig: " + refused.Error(),
		},
		"a proxy": {
			byProxy, "reaching the API server at https://api: no answer in 3s: check the proxy that is named at the end, that " +
				"the server runs, and that the kubeconfig names it: " + byProxy.Error(),
		},
		"no answer at all": {
			nil, "reaching the API server at https://api: no answer in 3s: check that it runs and that the kubeconfig names it: " +
				"context deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := cluster.New(&rest.Config{Host: "https://api"}, nil)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				attempts := 0
				err = persist(t.Context(), c, 3*time.Second, func(ctx context.Context) error {
					if attempts++; attempts == 1 && row.err != nil {
						return row.err
					}
					<-ctx.Done()
					return ctx.Err()
				})
				NewWithT(t).Expect(err).To(MatchError(row.want))
			})
		})
	}
}

// A server that has just started refuses everything until it has loaded its
// roles, also the question for permissions.
func TestARefusalOfAServerThatHasJustStartedIsNoDecision(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "selfsubjectaccessreviews"}, "", errors.New("no role"))
	for name, row := range map[string]struct {
		silence  time.Duration // before the first answer
		refusals int           // in a row
		timeout  time.Duration
		want     error
		after    time.Duration // at most
	}{
		"for a moment":                     {0, 3, time.Minute, nil, 2 * time.Second},
		"for a moment, after it was down":  {20 * time.Second, 3, time.Minute, nil, 30 * time.Second},
		"for good":                         {0, 1000, time.Minute, refusal, 12 * time.Second},
		"for good, after it was down":      {20 * time.Second, 1000, time.Minute, refusal, 34 * time.Second},
		"for good, with a shorter timeout": {0, 1000, 3 * time.Second, refusal, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				c, err := cluster.New(&rest.Config{Host: "https://api"}, nil)
				g.Expect(err).NotTo(HaveOccurred())
				began, attempts := time.Now(), 0
				err = persist(t.Context(), c, row.timeout, func(context.Context) error {
					if time.Since(began) < row.silence {
						return errors.New("connection refused")
					}
					if attempts++; attempts <= row.refusals {
						return fmt.Errorf("checking permission: %w", refusal)
					}
					return nil
				})
				if row.want == nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(row.want))
					g.Expect(err).NotTo(MatchError(ContainSubstring("no answer")))
				}
				g.Expect(time.Since(began)).To(BeNumerically("<=", row.after))
			})
		})
	}
}

// refusedByProxy returns the error of a request that a proxy has refused.
func refusedByProxy(t *testing.T) error {
	t.Helper()
	g := NewWithT(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	way := proxied.Of(&rest.Config{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:3128"})})
	_, err = way.Wrap(refusing{}).RoundTrip(req) //nolint:bodyclose // there is none
	g.Expect(err).To(MatchError(HavePrefix("Forbidden: the request goes through the proxy http://proxy:3128 ")))
	return err
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("Forbidden") }

// KUBECONFIG may name a file that does not exist.
func TestTheFilesInWhichThereIsNoKubeconfigAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", file)
	_, err := readKubeconfig("")
	NewWithT(t).Expect(err).To(MatchError("finding a cluster: this process does not run in a Pod, and there is no kubeconfig in " +
		file + ": set --kubeconfig or KUBECONFIG"))
}
