package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/balanced"
)

// The clients of a cluster share their connections.
func TestAClientLeavesAnAPIServerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		servers := &balanced.Transport{
			Answer: `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"d","uid":"1","resourceVersion":"1"}}`,
		}
		c, err := cluster.New(&rest.Config{Host: "https://api.example.com", Transport: servers}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		get := func() error {
			_, err := c.Client().CoreV1().Secrets("d").Get(t.Context(), "s", metav1.GetOptions{})
			return err
		}
		g.Expect(get()).To(MatchError(ContainSubstring("etcd is gone")))
		<-time.After(29 * time.Second)
		g.Expect(get()).To(MatchError(ContainSubstring("etcd is gone")))
		_, err = c.Metadata().Resource(metav1.SchemeGroupVersion.WithResource("x")).Get(t.Context(), "x", metav1.GetOptions{})
		g.Expect(err).To(MatchError(ContainSubstring("etcd is gone")))
		<-time.After(time.Second)
		g.Expect(get()).To(MatchError(ContainSubstring("etcd is gone")))
		g.Expect(get()).To(Succeed())
	})
}

// A trace of package reconciletest shows the line of a controller that makes a
// call, although transports of the library stand between both.
func TestTheCallerOfARequestIsOutsideOfTheLibrary(t *testing.T) {
	sim, err := apisim.New(&apisim.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sched := sim.Schedule(100)
		defer sched.Stop()
		c, err := cluster.New(sim.Config("it"), nil)
		g.Expect(err).NotTo(HaveOccurred())
		go func() { _, _ = c.Client().CoreV1().Secrets("d").Get(t.Context(), "s", metav1.GetOptions{}) }()
		synctest.Wait()
		calls := sched.Enabled()
		g.Expect(calls).To(HaveLen(1))
		g.Expect(calls[0].Caller()).To(MatchRegexp(`^reconnect_test\.go:\d+$`))
		sched.Step(calls[0], apisim.NoFault)
	})
}
