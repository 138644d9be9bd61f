package status_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

func TestReadyzNamesTheMissingPermissionAndToleratesTheOutsideSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}).CoreV1().Nodes()
		allowed := false
		c, err := reconcile.New("labels", informer.For(nodes, nil), reconcile.Func[*corev1.Node](
			func(context.Context, reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
				if allowed {
					return reconcile.Result{}, nil
				}
				return reconcile.Result{}, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n",
					errors.New(`User "robot" cannot patch resource "nodes" in API group "" at the cluster scope`))
			}), &reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) {
			return nil, errors.New("cloud is down")
		})})
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{c}})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		<-time.After(time.Second)
		code, body := client{g, handler}.get("/readyz")
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(body).To(Equal("[!] sweep/labels: listing names: cloud is down\nok\n"))
		<-time.After(2 * time.Minute)
		code, body = client{g, handler}.get("/readyz")
		g.Expect(code).To(Equal(http.StatusServiceUnavailable))
		g.Expect(body).To(And(HavePrefix("[-] controller/labels: the writes of nearly all keys (2) have been refused"),
			ContainSubstring("patch nodes at the cluster scope"),
			ContainSubstring("[!] controller/labels: m: the API server refuses to patch nodes at the cluster scope; grant it")))
		allowed = true
		c.Enqueue(reconcile.Key{Name: "n"})
		synctest.Wait()
		code, _ = client{g, handler}.get("/readyz")
		g.Expect(code).To(Equal(http.StatusOK))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}
