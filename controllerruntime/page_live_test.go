package controllerruntime_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/informer"
)

// AddHealthzCheck keeps the check under the name "live/NAME".
func (l *listening) AddHealthzCheck(name string, check healthz.Checker) error {
	l.checks["live/"+name] = check
	return nil
}

// An API server that does not answer is no reason for a restart, and neither
// are credentials that may still be replaced.
func TestCredentialsThatHaveEndedFailTheLivenessProbeOfAManager(t *testing.T) {
	g := NewWithT(t)
	state := informer.Status{Name: "pods", Reason: "unauthorized"}
	page := controllerruntime.Page{Informers: func() []informer.Status { return []informer.Status{state} }}
	m := newListening(g, &rest.Config{Host: "http://x"}, func(o *manager.Options) { o.NewCache = nil })
	g.Expect(page.AddTo(m)).To(Succeed())
	live := m.checks["live/caches"]
	g.Expect(live).NotTo(BeNil())
	g.Expect(live(nil)).To(Succeed(), "it has never synced, so a restart would not help")
	state.Synced, state.UnauthorizedSince = true, time.Now().Add(-4*time.Minute)
	g.Expect(live(nil)).To(Succeed())
	g.Expect(m.get("/livez")).To(HavePrefix("200"))
	state.UnauthorizedSince = time.Now().Add(-6 * time.Minute)
	g.Expect(live(nil)).To(MatchError(ContainSubstring("answered 401 to the informer of pods for 6m0s")))
	g.Expect(m.get("/livez")).To(HavePrefix("503"))
}
