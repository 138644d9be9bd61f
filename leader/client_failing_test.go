package leader_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/reconnect"
	"github.com/homeostat/homeostat/internal/test/balanced"
	"github.com/homeostat/homeostat/leader"
)

func TestALeaderLeavesAnAPIServerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l","namespace":"d"}}`
		config := &rest.Config{Host: "https://api.example.com", Transport: &balanced.Transport{Answer: lease}}
		var shared reconnect.Switch // of a cluster, whose own connection works
		work := shared.Wrap(&balanced.Transport{Answer: lease, Second: true})
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
