package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// MinInterval lies between two reconciles. A key that was dispatched and put
// back, without a reconcile, need not wait for it.
func TestMinIntervalDelaysNoKeyThatWasNotReconciled(t *testing.T) {
	options := &reconcile.Options{MinInterval: 6 * time.Hour}
	t.Run("its namespace was not listed", func(t *testing.T) {
		inTenants(t, informer.Options{Independent: true}, func(w *tenants) {
			w.put("b", "1")
			w.forbidden["b"].Store(true)
			c := w.made(options, w.watcher())
			stop := w.startRun(c.Run)
			c.Enqueue(keyIn("b", "1"))
			pass(time.Hour)
			w.Expect(w.reconciled()).To(BeEmpty())
			w.forbidden["b"].Store(false)
			pass(10 * time.Minute) // the longest time until the next list
			w.Expect(w.reconciled()).To(Equal([]string{"b/1"}))
			w.Expect(stop()).To(Succeed())
		})
	})
	t.Run("its namespace was out of scope", func(t *testing.T) {
		inTenants(t, informer.Options{}, func(w *tenants) {
			w.put("c", "1")
			c := w.made(options, w.watcher())
			stop := w.startRun(c.Run)
			c.Enqueue(keyIn("c", "1"))
			w.Expect(w.reconciled()).To(BeEmpty())
			w.Expect(w.in.SetNamespaces("a", "c")).To(Succeed())
			pass(time.Minute)
			w.Expect(w.reconciled()).To(Equal([]string{"c/1"}))
			w.Expect(stop()).To(Succeed())
		})
	})
	t.Run("its references were not known", func(t *testing.T) {
		inReferring(t, func(w *referring) {
			var isDown atomic.Bool
			isDown.Store(true)
			config := w.server.Config("operator")
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if isDown.Load() && strings.Contains(r.URL.Path, "/secrets") {
						return nil, syscall.ECONNREFUSED
					}
					return next.RoundTrip(r)
				})
			})
			client, err := kubernetes.NewForConfig(config)
			w.Expect(err).NotTo(HaveOccurred())
			w.secrets = informer.Referenced(client.CoreV1().Secrets, nil)
			w.putSecret("d", "one", "1")
			w.putMap("a", "one")
			w.run(options)
			w.Expect(w.ran()).To(BeEmpty())
			w.Expect(w.c.Stats().Failing).To(BeZero(), "the key waits, and has not failed")
			isDown.Store(false)
			pass(time.Minute)
			w.Expect(w.ran()).To(Equal([]string{"a one=1"}))
		})
	})
	t.Run("slow keys took turns", func(t *testing.T) {
		inRemotes(t, &reconcile.Options{MinInterval: 30 * time.Minute}, func(x *remotes) {
			for n := range 16 {
				x.create(fmt.Sprint("dead-", n))
			}
			pass(4 * time.Hour)
			x.reconciles()
			pass(10 * time.Hour)
			reconciles := 0
			for name, began := range x.reconciles() {
				x.Expect(strings.HasPrefix(name, "dead")).To(BeTrue())
				reconciles += len(began)
			}
			x.Expect(reconciles).To(BeNumerically(">=", 280), "two places, with two minutes for each reconcile")
		})
	})
}
