package stage

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
)

// Controller is the user name of the controllers on the simulated server.
const Controller = "controller"

// World is a simulated API server with its clients, in a bubble of virtual
// time.
type World struct {
	*gomega.WithT
	T   *testing.T
	Sim *apisim.Server
	// Tap records the requests of all controllers.
	Tap *wiretap.Tap
	// User is a client with the rights of an administrator. Tests act with
	// it as the users of the cluster do.
	User kubernetes.Interface
	// Events records the events of the controllers.
	Events *events.FakeRecorder
}

// Simulate calls f with a new world, inside a bubble of virtual time.
func Simulate(t *testing.T, o *apisim.Options, f func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{WithT: gomega.NewWithT(t), T: t, Tap: &wiretap.Tap{}, Events: events.NewFakeRecorder(100)}
		var err error
		w.Sim, err = apisim.New(o)
		w.Expect(err).NotTo(gomega.HaveOccurred())
		w.User, err = kubernetes.NewForConfig(w.Sim.Admin())
		w.Expect(err).NotTo(gomega.HaveOccurred())
		f(w)
	})
}

// Start runs a controller, and returns when all its goroutines are blocked. As
// with Pass, work may remain that the controller has postponed.
func (w *World) Start(make Maker) *Run {
	w.T.Helper()
	c, err := make(operator.Env{Cluster: Reach(w.Tap.Config(w.Sim.Config(Controller))), Events: w.Events})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	stopped := false
	run := start(w.T.Context(), c, w.Tap, func() { stopped = true })
	w.T.Cleanup(func() {
		if !stopped {
			w.Expect(run.Stop()).To(gomega.Succeed())
		}
	})
	synctest.Wait()
	return run
}

// Pass lets time pass, and then waits until all goroutines of the controllers
// are blocked. Work that a controller has postponed with a timer, such as a
// retry, remains for a later Pass.
func (w *World) Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Writes waits until all goroutines of the controllers are blocked, and returns
// their writes since the last call.
func (w *World) Writes() []string {
	synctest.Wait()
	return w.Tap.Writes()
}
