package reconcile_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// holding is a transport that can hold requests, and then ignores their
// contexts, as client-go does while a credential plugin does not return.
type holding struct {
	next http.RoundTripper

	mu       sync.Mutex    // guards released
	released chan struct{} // nil while requests pass
}

func (h *holding) hold() (release func()) {
	released := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = released
	return func() { close(released) }
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	released := h.released
	h.mu.Unlock()
	if released != nil {
		<-released
	}
	return h.next.RoundTrip(r)
}

// hold makes w.in an informer whose requests can be held.
func (w *fixture) hold() (*holding, *apisim.Server) {
	sim, err := apisim.New(nil)
	w.Expect(err).NotTo(HaveOccurred())
	h := &holding{}
	config := sim.Config("controller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		h.next = next
		return h
	})
	w.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("d"), nil)
	return h, sim
}

func TestAStopDoesNotWaitForARequestOfAnInformerThatDoesNotReturn(t *testing.T) {
	inFixture(t, func(w *fixture) {
		h, sim := w.hold()
		c := w.made(&reconcile.Options{Grace: time.Minute}, w.recorder())
		stop := w.startRun(c.Run)
		pass(time.Second)
		release := h.hold()
		sim.DropWatches("", "")
		pass(time.Minute)
		began := time.Now()
		err := stop()
		w.Expect(err).To(MatchError(reconcile.ErrGraceExpired))
		w.Expect(err).To(MatchError(And(
			ContainSubstring(`controller "test"`), ContainSubstring("the informer of configmaps has not ended"))))
		w.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second), "no reconcile needs the grace period")
		release()
		synctest.Wait()
	})
}

func TestAStopSaysWhatTheFirstListWaitedFor(t *testing.T) {
	for _, optional := range []bool{false, true} {
		inFixture(t, func(w *fixture) {
			h, _ := w.hold()
			release := h.hold()
			c := w.made(&reconcile.Options{Optional: optional}, w.recorder())
			stop := w.startRun(c.Run)
			pass(10 * time.Minute)
			err := stop()
			w.Expect(err).To(MatchError(reconcile.ErrGraceExpired), "although it is optional")
			w.Expect(err).To(MatchError(ContainSubstring("the informer of configmaps has not ended")))
			reason := ContainSubstring("waiting for the cache of configmaps: ")
			if optional {
				reason = Not(reason)
			} else {
				reason = And(reason, ContainSubstring("no answer for "))
			}
			w.Expect(err).To(MatchError(reason))
			release()
			synctest.Wait()
		})
	}
}
