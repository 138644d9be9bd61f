package undermanager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat/homeostat/examples/interop/undermanager"
	"github.com/homeostat/homeostat/internal/apisim"
)

func TestTheManagerRunsBoth(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	config := sim.Config("manager")
	config.Wrap(allowing)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	address := freeAddress(g)
	mgr, err := manager.New(config, manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: address}, HealthProbeBindAddress: "127.0.0.1:0",
	})
	g.Expect(err).NotTo(HaveOccurred())
	theirs := make(chan string, 1)
	g.Expect(ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(reconciler(func(r ctrl.Request) {
		theirs <- r.Name
	}))).To(Succeed())
	g.Expect(undermanager.Add(t.Context(), mgr, "shop", "a")).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()

	client := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1()
	maps := client.ConfigMaps("shop")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"text": "short"}}
	_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (*corev1.ConfigMap, error) { return maps.Get(t.Context(), "m", metav1.GetOptions{}) }, 20*time.Second).
		Should(HaveField("Labels", HaveKey("example.com/has-text")))
	_, err = client.Secrets("shop").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(theirs, 20*time.Second).Should(Receive(Equal("s")))

	g.Expect(get("http://" + address + "/metrics")).To(ContainSubstring(`controller_runtime_reconcile_total{controller="secret"`))
	ours := "http://" + address + "/homeostat/metrics"
	g.Expect(get(ours)).To(ContainSubstring(`controller_runtime_reconcile_total{controller="labels"`))
	cancel()
	g.Expect(<-ended).To(Succeed())
	lease, err := kubernetes.NewForConfigOrDie(sim.Admin()).CoordinationV1().Leases("shop").Get(t.Context(), "labels", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lease.Spec.HolderIdentity).To(BeNil(), "it was released")
}

func freeAddress(g *WithT) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.Close()).To(Succeed())
	return l.Addr().String()
}

func get(url string) (string, error) {
	res, err := http.Get(url) //nolint:noctx,gosec // from this process
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// reconciler tells which keys it was called with.
type reconciler func(ctrl.Request)

func (r reconciler) Reconcile(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
	r(request)
	return ctrl.Result{}, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// allowing answers reviews, which the simulated server does not: everything is
// allowed.
func allowing(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") {
			return next.RoundTrip(req)
		}
		body, err := json.Marshal(&authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
		})
		return &http.Response{
			StatusCode: http.StatusCreated, Request: req, Body: io.NopCloser(bytes.NewReader(body)),
			Header: http.Header{"Content-Type": {"application/json"}},
		}, err
	})
}
