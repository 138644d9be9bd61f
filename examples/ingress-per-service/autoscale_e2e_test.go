//go:build e2e

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
	"github.com/homeostat/homeostat/internal/test/stage"
)

const customMetrics = "custom.metrics.k8s.io/v1beta2"

// adapter is the API server with custom metrics beside it, as an adapter of
// Prometheus's metrics adds them: each replica's queue lags, and its workers
// are busy, as much as is set.
type adapter struct {
	through   *httputil.ReverseProxy
	lag, busy atomic.Int64 // milliseconds, thousandths
	asked     atomic.Int64
}

func newAdapter(config *rest.Config) *adapter {
	GinkgoHelper()
	server, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, Transport: transport, FlushInterval: -1,
	}
	return &adapter{through: through}
}

func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	group, _, _ := strings.Cut(customMetrics, "/")
	version := metav1.GroupVersionForDiscovery{GroupVersion: customMetrics, Version: "v1beta2"}
	switch rest, ours := strings.CutPrefix(r.URL.Path, "/apis/"+customMetrics); {
	case r.URL.Path == "/apis":
		a.groups(w, r, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	case ours && rest == "":
		answer(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: customMetrics,
		})
	case ours:
		a.values(w, r, filepath.Base(rest))
	default:
		a.through.ServeHTTP(w, r)
	}
}

// groups answers with the groups of the server and one more.
func (a *adapter) groups(w http.ResponseWriter, r *http.Request, more metav1.APIGroup) {
	r.Header.Set("Accept", "application/json")
	r.Header.Del("Accept-Encoding")
	recorded := httptest.NewRecorder()
	a.through.ServeHTTP(recorded, r)
	all := metav1.APIGroupList{}
	if err := json.Unmarshal(recorded.Body.Bytes(), &all); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	all.Groups = append(all.Groups, more)
	answer(w, all)
}

// values answers with a metric of each Pod that the query selects.
func (a *adapter) values(w http.ResponseWriter, r *http.Request, metric string) {
	value, known := map[string]int64{"controller_queue_lag_seconds": a.lag.Load(), "controller_workers_busy": a.busy.Load()}[metric]
	if !known {
		http.NotFound(w, r)
		return
	}
	pods, err := cluster.User.CoreV1().Pods(name).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	items := []any{}
	for _, pod := range pods.Items {
		items = append(items, map[string]any{
			"describedObject": map[string]any{"kind": "Pod", "namespace": name, "name": pod.Name, "apiVersion": "/v1"},
			"metric":          map[string]any{"name": metric}, "timestamp": metav1.Now(), "value": fmt.Sprintf("%dm", value),
		})
	}
	a.asked.Add(1)
	answer(w, map[string]any{"kind": "MetricValueList", "apiVersion": customMetrics, "metadata": map[string]any{}, "items": items})
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// autoscaler runs the HorizontalPodAutoscaler controller of Kubernetes, which
// the control plane leaves out.
func autoscaler(ctx context.Context, program, server string) {
	GinkgoHelper()
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "autoscaler")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
		CurrentContext: "x",
	}, kubeconfig)).To(Succeed())
	command := exec.CommandContext(ctx, program, "kube-controller-manager", "--kubeconfig="+kubeconfig, "--leader-elect=false",
		"--secure-port=0", "--controllers=horizontal-pod-autoscaler-controller", "--horizontal-pod-autoscaler-sync-period=1s")
	command.Stderr = GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
	})
}

// manifests returns the manifests of a kustomization, without the kinds that
// the control plane does not serve.
func manifests(program, folder string) string {
	GinkgoHelper()
	text, err := exec.Command(program, "kubectl", "kustomize", folder).Output()
	Expect(err).NotTo(HaveOccurred())
	var known []string
	for manifest := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains(manifest, "kind: PodMonitor") {
			known = append(known, manifest)
		}
	}
	return strings.Join(known, "\n---\n")
}

// runPods acts as the kubelets.
func runPods(ctx context.Context) error {
	pods, err := cluster.User.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		if _, err := cluster.User.CoreV1().Pods(name).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

var _ = Describe("The autoscaler of overlays/autoscaled", func() {
	It("adds replicas when keys wait, and keeps them while workers are busy", func(ctx SpecContext) {
		program, err := compile.ControlPlane(ctx, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		metrics := newAdapter(cluster.Config())
		metrics.busy.Store(300)
		server := httptest.NewServer(metrics)
		DeferCleanup(server.Close)
		Expect(cluster.Apply(ctx, manifests(program, filepath.Join("overlays", "autoscaled")))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			for _, remove := range []error{
				cluster.User.AutoscalingV2().HorizontalPodAutoscalers(name).Delete(ctx, name, metav1.DeleteOptions{}),
				cluster.User.AppsV1().Deployments(name).Delete(ctx, name, metav1.DeleteOptions{}),
			} {
				Expect(remove).NotTo(HaveOccurred())
			}
		})
		autoscaler(ctx, program, server.URL)

		replicas := func(ctx context.Context) (int32, error) {
			deployment, err := cluster.User.AppsV1().Deployments(name).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return 0, err
			}
			return *deployment.Spec.Replicas, runPods(ctx)
		}
		Eventually(ctx, replicas, stage.Patience).Should(BeEquivalentTo(2), "the least, from the 1 of a Deployment that says nothing")
		seen := func(ctx context.Context) (*autoscalingv2.HorizontalPodAutoscaler, error) {
			return cluster.User.AutoscalingV2().HorizontalPodAutoscalers(name).Get(ctx, name, metav1.GetOptions{})
		}
		Eventually(ctx, seen, stage.Patience).Should(HaveField("Status.CurrentMetrics", ConsistOf(
			HaveField("Pods.Metric.Name", "controller_queue_lag_seconds"), HaveField("Pods.Metric.Name", "controller_workers_busy"))))
		metrics.lag.Store(60_000)
		Eventually(ctx, replicas, 2*stage.Patience).Should(BeNumerically(">", 2), "keys wait for a minute")
		metrics.lag.Store(0)
		metrics.busy.Store(600)
		asked := metrics.asked.Load()
		Eventually(ctx, metrics.asked.Load, stage.Patience).Should(BeNumerically(">", asked+10))
		Eventually(ctx, seen, stage.Patience).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", autoscalingv2.AbleToScale), HaveField("Reason", "ReadyForNewScale")))),
			"workers are as busy as they should be: not only the window keeps the replicas")
	}, SpecTimeout(5*time.Minute))
})
