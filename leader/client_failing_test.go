package leader_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/reconnect"
	"github.com/homeostat/homeostat/leader"
)

// balanced is the way to two API servers, of which the first one answers 500. A
// request that closes its connection is the last one that the first one gets.
type balanced struct{ isSecond bool }

func (b *balanced) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure"}`
	if b.isSecond {
		status = http.StatusOK
		body = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l","namespace":"d"}}`
	}
	b.isSecond = b.isSecond || req.Close
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

func TestALeaderLeavesAnAPIServerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		config := &rest.Config{Host: "https://api.example.com", Transport: &balanced{}}
		var shared reconnect.Switch // of a cluster, whose own connection works
		work := shared.Wrap(&balanced{isSecond: true})
		config.Wrap(shared.Wrap)
		leases, err := leader.Client(config)
		g.Expect(err).NotTo(HaveOccurred())
		get := func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/api", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			res, err := work.RoundTrip(req)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(res.Body.Close()).To(Succeed())
			_, err = leases.Leases("d").Get(t.Context(), "l", metav1.GetOptions{})
			return err
		}
		g.Expect(get()).NotTo(Succeed())
		<-time.After(29 * time.Second)
		g.Expect(get()).NotTo(Succeed())
		<-time.After(time.Second)
		g.Expect(get()).NotTo(Succeed())
		g.Expect(get()).To(Succeed())
	})
}
