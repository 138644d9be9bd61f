package status_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

func TestAMissingNamespaceIsNamedAndLeavesTheProcessReady(t *testing.T) {
	for independent, expected := range map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			client := fake.NewClientset()
			client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no role"))
				return action.GetNamespace() == "b", nil, forbidden
			})
			in := informer.ForNamespaces(client.CoreV1().ConfigMaps,
				&informer.Options{Namespaces: []string{"a", "b"}, Independent: independent})
			c, err := reconcile.New("test", in, reconcile.Func[*corev1.ConfigMap](
				func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
					return reconcile.Result{}, nil
				}), nil)
			g.Expect(err).NotTo(HaveOccurred())
			const cause = "namespace not listed"
			further := []informer.Status{
				{Name: "configmaps", Synced: true, Problems: []informer.Problem{{Cause: cause}}},
			}
			handler, err := status.New(&status.Options{
				Controllers: []*reconcile.Controller{c}, Informers: func() []informer.Status { return further },
			})
			g.Expect(err).NotTo(HaveOccurred())
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			<-time.After(time.Minute)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
			g.Expect(answer.Code).To(Equal(expected))
			g.Expect(answer.Body.String()).To(And(ContainSubstring("informer/configmaps"), ContainSubstring(`namespace "b"`),
				ContainSubstring("no role")))
			answer = httptest.NewRecorder()
			var said []string
			logs := logr.NewContext(t.Context(), funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{}))
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(logs, http.MethodGet, "/metrics", http.NoBody))
			g.Expect(said).To(BeEmpty(), "no metric is left out")
			metric := `homeostat_problems{cause="` + cause + `",check="informer/configmaps"} 1`
			g.Expect(strings.Count(answer.Body.String(), metric)).To(Equal(1), "also with two informers of one name")
			stop()
			<-ended
		})
	}
}
