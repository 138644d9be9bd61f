package patch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// redirecting returns the configuration of a gateway that answers all requests
// but reads by a redirect to the same address. Go's HTTP client then sends a
// GET, so the answer to each write is the object as it was.
func redirecting(t *testing.T, config *rest.Config, code int) *rest.Config {
	t.Helper()
	g := NewWithT(t)
	transport, err := rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	host, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(host) }}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Location", r.URL.RequestURI())
		w.WriteHeader(code)
	}))
	t.Cleanup(gateway.Close)
	return &rest.Config{Host: gateway.URL}
}

func TestARedirectedWriteIsAnError(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			admin := kubernetes.NewForConfigOrDie(sim.Admin())
			pods := kubernetes.NewForConfigOrDie(redirecting(t, sim.Admin(), code)).CoreV1().Pods
			pod := blankPod("d")
			pod.Finalizers = []string{mine}
			live, err := admin.CoreV1().Pods("d").Create(ctx, pod, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			fresh := blankPod("d")
			fresh.Name = "fresh"
			fresh, err = admin.CoreV1().Pods("d").Create(ctx, fresh, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for name, err := range map[string]error{
				"Delete": patch.Delete(ctx, pods, live, nil),
				"Merge":  second(patch.Merge(ctx, pods, live, nil, relabel)),
				"Status": second(patch.Status(ctx, pods, live, nil, func(p *corev1.Pod) { p.Status.Message = "b" })),
				"Ensure": second(patch.Ensure(ctx, pods, live, nil, relabel)),
				"Create": second(patch.Ensure(ctx, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "new"}},
					nil, relabel)),
				"Apply": second(patch.NewApplier(pods).Apply(ctx, live, nil,
					corev1apply.Pod("x", "d").WithLabels(map[string]string{"a": "b"}))),
				"Guard adds": guards(ctx, pods, fresh),
			} {
				g.Expect(err).To(HaveOccurred(), name)
			}
			live, err = admin.CoreV1().Pods("d").Get(ctx, "x", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			stale := live.DeepCopy()
			stale.ResourceVersion = "1"
			g.Expect(second(patch.Merge(ctx, pods, stale, nil, relabel))).To(MatchError(ContainSubstring("was redirected")))
			g.Expect(admin.CoreV1().Pods("d").Delete(ctx, "x", metav1.DeleteOptions{})).To(Succeed())
			dying, err := admin.CoreV1().Pods("d").Get(ctx, "x", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(guards(ctx, pods, dying)).NotTo(Succeed(), "the finalizer stays")
			g.Expect(patch.Delete(ctx, pods, live, nil)).To(Succeed(), "it is being deleted")
		})
	}
}

func guards(ctx context.Context, pods podsOf, cached *corev1.Pod) error {
	finalizer := patch.Finalizer[*corev1.Pod, podClient]{
		Name: mine, Client: func(namespace string) podClient { return pods(namespace) },
		Clean: func(context.Context, *corev1.Pod) error { return nil },
	}
	_, _, err := finalizer.Guard(ctx, cached)
	return err
}

// A server drops fields that it does not know, and answers with the object as
// it is.
func TestAnEditThatTheServerAlreadyHasIsStored(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	pods := simulated(t).CoreV1().Pods
	pod := blankPod("d")
	relabel(pod)
	live, err := pods("d").Create(ctx, pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	cut := live.DeepCopy()
	cut.Labels = nil // by a Transform
	got, err := patch.Merge(ctx, pods, cut, nil, relabel)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.ResourceVersion).To(Equal(live.ResourceVersion))
}
