package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/reconcile"
)

func TestAFloodOfEventsIsCutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := events.NewFakeRecorder(1000)
		recorder := reconcile.LimitEvents(server)
		warn := func(n int) {
			for range n {
				recorder.Eventf(configMapNamed("a"), nil, "Warning", "Broken", "Reconcile", "it is %s", "broken")
			}
		}
		warn(500)
		g.Expect(server.Events).To(HaveLen(reconcile.EventBurst))
		g.Expect(recorder.Dropped()).To(BeEquivalentTo(500 - reconcile.EventBurst))
		g.Expect(<-server.Events).To(Equal("Warning Broken it is broken"))
		<-time.After(10 * time.Second)
		warn(500)
		g.Expect(server.Events).To(HaveLen(reconcile.EventBurst - 1 + 10*reconcile.EventsPerSecond))
	})
}
