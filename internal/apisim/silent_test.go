package apisim_test

import (
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Discovery of the other groups works, in both of its forms.
func TestASilentAPIIsListedAndDoesNotAnswer(t *testing.T) {
	silent := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
	for name, legacy := range map[string]bool{"aggregated": false, "by group": true} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			sim, err := apisim.New(&apisim.Options{Silent: silent})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			client := discovery.NewDiscoveryClientForConfigOrDie(sim.Config("c"))
			client.UseLegacyDiscovery = legacy
			groups, resources, err := client.ServerGroupsAndResources()
			g.Expect(discovery.IsGroupDiscoveryFailedError(err)).To(gomega.BeTrue(), "%v", err)
			g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(silent.String())))
			g.Expect(groups).To(gomega.ContainElement(gomega.HaveField("Name", silent.Group)))
			g.Expect(resources).To(gomega.ContainElement(gomega.HaveField("GroupVersion", "apps/v1")))
			_, err = dynamic.NewForConfigOrDie(sim.Config("c")).Resource(silent.WithResource("pods")).
				List(t.Context(), metav1.ListOptions{})
			g.Expect(err).To(gomega.HaveField("ErrStatus.Code", gomega.BeEquivalentTo(http.StatusServiceUnavailable)))
		})
	}
}

func TestWatchesOfAResourceEnd(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	client := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
	pods, err := client.Pods("").Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	secrets, err := client.Secrets("").Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer secrets.Stop()
	sim.EndWatches(corev1.SchemeGroupVersion.WithResource("pods"))
	_, more := <-pods.ResultChan()
	g.Expect(more).To(gomega.BeFalse())
	_, err = client.Secrets("d").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	event := <-secrets.ResultChan()
	g.Expect(event.Object).To(gomega.HaveField("Name", "s"))
}
