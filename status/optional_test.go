package status_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

func TestAnOptionalControllerThatWaitsLeavesTheProcessReady(t *testing.T) {
	for name, c := range map[string]struct {
		optional bool
		code     int
	}{"optional": {true, http.StatusOK}, "required": {false, http.StatusServiceUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			clients := fake.NewClientset()
			clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("not served")
			})
			one, err := reconcile.New("one", informer.For(clients.CoreV1().Pods("d"), nil), reconcile.Func[*corev1.Pod](
				func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
					return reconcile.Result{}, nil
				}), &reconcile.Options{Optional: c.optional})
			g.Expect(err).NotTo(HaveOccurred())
			handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{one}})
			g.Expect(err).NotTo(HaveOccurred())
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = one.Run(ctx) }()
			synctest.Wait()
			code, body := client{g, handler}.get("/readyz")
			g.Expect(code).To(Equal(c.code), name)
			_, metrics := client{g, handler}.get("/metrics")
			if c.optional {
				g.Expect(body).To(MatchRegexp(`^\[!\] controller/one: it waits for the cache of pods: .*not served\nok\n$`))
				g.Expect(metrics).To(And(
					ContainSubstring(`homeostat_problems{cause="waiting",check="controller/one"} 1`),
					Not(ContainSubstring("homeostat_informer_synced{"))))
			} else {
				g.Expect(body).To(And(ContainSubstring("[-] controller/one: the controller is syncing"), ContainSubstring("[-] informer/pods")))
				g.Expect(metrics).To(ContainSubstring("homeostat_informer_synced{"))
			}
			stop()
			<-ended
			code, _ = client{g, handler}.get("/readyz")
			g.Expect(code).To(Equal(http.StatusServiceUnavailable), "it has stopped")
		})
	}
}

// unelected is an election that no replica has won.
type unelected struct{ leading }

func (unelected) Ready() error { return errors.New("no replica leads") }

// A controller joins the election after its caches are filled.
func TestAnElectionThatWaitsForCachesLeavesTheProcessReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		clients, forbidden := fake.NewClientset(), atomic.Bool{}
		forbidden.Store(true)
		clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return forbidden.Load(), nil, errors.New("forbidden")
		})
		one, err := reconcile.New("one", informer.For(clients.CoreV1().Pods("d"), nil), reconcile.Func[*corev1.Pod](
			func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), &reconcile.Options{Leader: unelected{}})
		g.Expect(err).NotTo(HaveOccurred())
		handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{one}, ReadyWithoutCaches: true})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = one.Run(ctx) }()
		synctest.Wait()
		code, body := client{g, handler}.get("/readyz")
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(body).To(And(ContainSubstring("[!] controller/one: the controller is syncing"), Not(ContainSubstring("leader/one"))))
		forbidden.Store(false)
		<-time.After(2 * time.Minute)
		code, body = client{g, handler}.get("/readyz")
		g.Expect(code).To(Equal(http.StatusServiceUnavailable))
		g.Expect(body).To(ContainSubstring("[-] leader/one: no replica leads"))
		stop()
		<-ended
	})
}
