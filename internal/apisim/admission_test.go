package apisim_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

// newServer returns a simulated server and a client of it.
func newServer(t *testing.T) (*apisim.Server, kubernetes.Interface) {
	t.Helper()
	sim, err := apisim.New(&apisim.Options{Lifecycle: true})
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	return sim, kubernetes.NewForConfigOrDie(sim.Admin())
}

func pod(name string, change func(s *corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	change(&p.Spec)
	return p
}

// A Pod without a class gets the default class, and a refusal names the value
// that does not fit.
func TestPriorityClassesAreAdmitted(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, client := newServer(t)
	for name, value := range map[string]int32{"low": 7, "high": 9} {
		g.Expect(sim.Load(&schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: true,
		})).To(gomega.Succeed())
	}
	create := func(name string, change func(s *corev1.PodSpec)) (*corev1.Pod, error) {
		return client.CoreV1().Pods("default").Create(t.Context(), pod(name, change), metav1.CreateOptions{})
	}
	seven, eight, never := int32(7), int32(8), corev1.PreemptNever
	for name, p := range map[string]*int32{"none": nil, "same": &seven} {
		made, err := create(name, func(s *corev1.PodSpec) { s.Priority = p })
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(made.Spec.PriorityClassName).To(gomega.Equal("low"))
		g.Expect(made.Spec.Priority).To(gomega.HaveValue(gomega.Equal(seven)))
	}
	for want, change := range map[string]func(s *corev1.PodSpec){
		"no PriorityClass with name x was found":                 func(s *corev1.PodSpec) { s.PriorityClassName = "x" },
		"the integer value of priority (8) must not be provided": func(s *corev1.PodSpec) { s.Priority = &eight },
		"the string value of PreemptionPolicy (Never) must not":  func(s *corev1.PodSpec) { s.PreemptionPolicy = &never },
	} {
		_, err := create("refused", change)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
}

// service returns a Service with an address and node ports, by their names.
func service(name, address string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: address, Ports: ports},
	}
}

func TestServicesChooseAddressesOfUsualRanges(t *testing.T) {
	g := gomega.NewWithT(t)
	_, client := newServer(t)
	services := client.CoreV1().Services("default")
	port := corev1.ServicePort{Port: 53}
	_, err := services.Create(t.Context(), service("dns", "10.96.0.10", port), metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = services.Create(t.Context(), service("a", "8.8.8.8", port), metav1.CreateOptions{})
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("the simulated server has [10.0.0.0/16 ")))
}

// Loaded objects may come from a cluster with different addresses: an update
// that keeps them is not refused.
func TestALoadedServiceKeepsItsAddresses(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, client := newServer(t)
	both := corev1.IPFamilyPolicyRequireDualStack
	loaded := service("a", "fd00::1", corev1.ServicePort{Port: 80})
	loaded.Spec.ClusterIPs = []string{"fd00::1", "10.0.0.9"}
	loaded.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	loaded.Spec.IPFamilyPolicy = &both
	g.Expect(sim.Load(loaded)).To(gomega.Succeed())
	apply := func(ctx context.Context, body string) error {
		services := client.CoreV1().Services("default")
		_, err := services.Patch(ctx, "a", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	g.Expect(apply(t.Context(), `{"metadata":{"labels":{"a":"b"}}}`)).To(gomega.Succeed())
	g.Expect(apply(t.Context(), `{"spec":{"ports":[{"port":81}]}}`)).To(gomega.Succeed())
	g.Expect(apply(t.Context(), `{"spec":{"ipFamilies":["IPv6"]}}`)).NotTo(gomega.Succeed())
}

// A port that has lost its number gets a new one when another port names it.
func TestTwoPortsOfAServiceAreNeverTheSame(t *testing.T) {
	g := gomega.NewWithT(t)
	_, client := newServer(t)
	services := client.CoreV1().Services("default")
	a := corev1.ServicePort{Name: "a", Port: 80, NodePort: 30051}
	made, err := services.Create(t.Context(), service("s", "", a), metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	a.NodePort = 0
	made.Spec.Ports = []corev1.ServicePort{a, {Name: "b", Port: 81, NodePort: 30051}}
	made, err = services.Update(t.Context(), made, metav1.UpdateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(made.Spec.Ports[0].NodePort).NotTo(gomega.BeElementOf(int32(0), int32(30051)))
	g.Expect(made.Spec.Ports[1].NodePort).To(gomega.Equal(int32(30051)))
}
