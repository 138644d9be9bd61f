package status_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

func TestThePagesShowWhatAKeyRefersTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		meta := metav1.ObjectMeta{Namespace: "d", Name: "a"}
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta})
		secrets := informer.Referenced(client.CoreV1().Secrets, nil)
		type request = reconcile.Request[*corev1.ConfigMap]
		c, err := reconcile.New("rollout", informer.For(client.CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*corev1.ConfigMap](func(context.Context, request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), &reconcile.Options{Triggers: []reconcile.Trigger{
				reconcile.References(secrets, func(*corev1.ConfigMap) []reconcile.Key {
					return []reconcile.Key{{Namespace: "d", Name: "a"}, {Namespace: "d", Name: "b"}}
				}),
			}})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{c}})
		g.Expect(err).NotTo(HaveOccurred())
		get := func(query url.Values) string {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/homeostat?"+query.Encode(), nil))
			return w.Body.String()
		}
		g.Expect(text(get(url.Values{"controller": {"rollout"}, "key": {"d/a"}}))).To(
			ContainSubstring("References Secret d/a: exists Secret d/b: does not exist"))
		g.Expect(text(get(nil))).To(ContainSubstring("1 of 2 references"))
		g.Expect(get(url.Values{"format": {"json"}})).To(ContainSubstring(`"openWatches": 2`))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}
