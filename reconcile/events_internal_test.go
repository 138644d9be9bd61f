package reconcile

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

func TestAFloodOfEventsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := events.NewFakeRecorder(1000)
		options := (&Options{Events: server}).withDefaults("test")
		c := &core{options: options}
		warn := func(n int) {
			for range n {
				c.warn(t.Context(), &corev1.ConfigMap{}, "Broken", "Reconcile", "it is %s", "broken")
			}
		}
		warn(500)
		g.Expect(server.Events).To(HaveLen(eventBurst))
		g.Expect(<-server.Events).To(Equal("Warning Broken it is broken"))
		<-time.After(10 * time.Second)
		warn(500)
		g.Expect(server.Events).To(HaveLen(eventBurst - 1 + 10*eventsPerSecond))
		g.Expect((&Options{}).withDefaults("test").Events).To(BeNil())
	})
}

// A user's recorder may send notes unchanged, and a server refuses notes of
// more than 1,024 bytes.
func TestAWarningIsShortEnoughForEveryServer(t *testing.T) {
	g := NewWithT(t)
	server := events.NewFakeRecorder(1)
	c := &core{options: (&Options{Events: server}).withDefaults("test")}
	c.warn(t.Context(), &corev1.ConfigMap{}, "Broken", "Reconcile", "it is %s", strings.Repeat("ö", 1000))
	g.Expect(<-server.Events).To(Equal("Warning Broken it is " + strings.Repeat("ö", 507) + "…"))
}
