package patch_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/patch"
)

// hiddenSeconds adds a toleration to a Pod, of which a Transform has cleared
// the tolerationSeconds. The server replaces tolerations as a whole.
func hiddenSeconds(ctx context.Context, t testing.TB, client kubernetes.Interface, namespace string) {
	g, zero := NewWithT(t), int64(0)
	pod := blankPod(namespace)
	pod.Name = "tolerant"
	pod.Spec.Tolerations = []corev1.Toleration{{
		Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &zero,
	}}
	pods := client.CoreV1().Pods
	stored, err := pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	cached := stored.DeepCopy()
	for i := range cached.Spec.Tolerations {
		cached.Spec.Tolerations[i].TolerationSeconds = nil
	}
	added := corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}
	got, err := patch.Merge(ctx, pods, cached, nil, func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, added)
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Spec.Tolerations).To(Equal(append(stored.Spec.Tolerations, added)))

	cached = got.DeepCopy()
	cached.Spec.Tolerations = nil
	_, err = patch.Merge(ctx, pods, cached, nil, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{added}
	})
	g.Expect(err).To(MatchError(ContainSubstring("the server has fields in spec.tolerations")))
}

// hiddenNodePorts renames a port of a Service whose two ports have one merge
// key. An older type would not show their node ports.
func hiddenNodePorts(ctx context.Context, t testing.TB, client kubernetes.Interface, namespace string) {
	g, services := NewWithT(t), client.CoreV1().Services
	stored, err := services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "dns", Namespace: namespace},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{port("dns", 53, udp), port("dns-tcp", 53, tcp)},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	cached := stored.DeepCopy()
	for i := range cached.Spec.Ports {
		g.Expect(cached.Spec.Ports[i].NodePort).NotTo(BeZero())
		cached.Spec.Ports[i].NodePort = 0
	}
	got, err := patch.Merge(ctx, services, cached, nil, func(s *corev1.Service) { s.Spec.Ports[1].Name = "tcp" })
	g.Expect(err).NotTo(HaveOccurred())
	want := stored.DeepCopy()
	want.Spec.Ports[1].Name = "tcp"
	g.Expect(got.Spec.Ports).To(Equal(want.Spec.Ports))
}

func TestWhatTheProgramDoesNotSeeOfABuiltInKindSurvives(t *testing.T) {
	hiddenSeconds(t.Context(), t, simulated(t), "d")
	hiddenNodePorts(t.Context(), t, simulated(t), "d")
}

// A lock is no reason to send a list as a whole.
func TestALockedEditLosesNothingThatTheProgramDoesNotSee(t *testing.T) {
	w := simulatedWidgets(t)
	for i, c := range hiddenCases {
		if c.status {
			continue
		}
		name := fmt.Sprint("locked-", i)
		w.store(name, "spec", c.is)
		_, err := patch.Merge(w.ctx, w.widgets.typed, w.cached(name, c.cut), &patch.Options{Lock: true}, c.edit)
		if c.refused == "" {
			w.Expect(err).NotTo(HaveOccurred(), c.name)
		} else {
			w.Expect(err).To(MatchError(ContainSubstring("the server has fields in "+c.refused)), c.name)
		}
		w.Expect(w.has(name, "spec")).To(MatchJSON(c.want()), c.name)
	}
}
