//go:build e2e

package trial_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// runPod creates a running Pod on a node: there is no kubelet that would.
func runPod(ctx context.Context, namespace, name, node string, change func(*corev1.Pod)) {
	GinkgoHelper()
	grace := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if change != nil {
		change(pod)
	}
	_, err := core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	// A patch: the garbage collector may have marked the Pod meanwhile.
	running := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	_, err = core.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, running, metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

func podsIn(namespace string) func(ctx SpecContext) ([]string, error) {
	return func(ctx SpecContext) ([]string, error) {
		var names []string
		list, err := core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	}
}

// guard makes a budget that needs that many healthy Pods of the app.
func guard(ctx context.Context, namespace, app string, healthy int32) {
	GinkgoHelper()
	least := intstr.FromInt32(healthy)
	_, err := core.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app + "-stays"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (int64, error) {
		b, err := core.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, app+"-stays", metav1.GetOptions{})
		return b.Status.ObservedGeneration, err
	}).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">", 0))
}

var _ = Describe("a drain", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) {
		var err error
		namespace, err = cluster.Namespace(ctx, "drain")
		Expect(err).NotTo(HaveOccurred())
	})

	It("waits for the budget, names Pod and budget in event and condition, and leaves the rest alone", func(ctx SpecContext) {
		createNode(ctx, "drained", nil)
		runPod(ctx, namespace, "free", "drained", nil)
		runPod(ctx, namespace, "web", "drained", nil)
		runPod(ctx, namespace, "log", "drained", func(pod *corev1.Pod) {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "log", UID: "u", Controller: &yes}}
			pod.Finalizers = []string{"trial/stay"} // the garbage collector looks for the owner
		})
		DeferCleanup(unfinalize, namespace, "log")
		runPod(ctx, namespace, "etcd-drained", "drained", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		})
		guard(ctx, namespace, "web", 1)
		startController(ctx)
		Expect(createGroup(ctx, "drained", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("drained"), Drain: api.Drain{Policy: protocol.PolicyWait},
		})).To(Succeed())
		m := startAgent(ctx, "drained")
		annotate(ctx, "drained", protocol.Needed, "kernel")

		refused := ContainSubstring("Pod " + namespace + "/web: The disruption budget web-stays needs 1 healthy pods and has 1 currently")
		Eventually(conditionOf("drained", rules.ConditionDrained)).WithContext(ctx).WithTimeout(patience).Should(
			And(HavePrefix("False EvictionBlocked drained: "), refused))
		Eventually(notes("drained", "EvictionBlocked")).WithContext(ctx).WithTimeout(patience).Should(ContainElement(refused))
		Expect(podsIn(namespace)(ctx)).To(ConsistOf("web", "log", "etcd-drained"))
		Consistently(m.Off).WithContext(ctx).WithTimeout(quiet).Should(BeFalse())

		By("letting it go")
		Expect(core.PolicyV1().PodDisruptionBudgets(namespace).Delete(ctx, "web-stays", metav1.DeleteOptions{})).To(Succeed())
		Eventually(m.Off).WithContext(ctx).WithTimeout(patience).Should(BeTrue())
		Expect(podsIn(namespace)(ctx)).To(ConsistOf("log", "etcd-drained"))
		wake(ctx, m, "drained")
		Eventually(slotsOf("drained")).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
		Eventually(conditionOf("drained", rules.ConditionDrained)).WithContext(ctx).WithTimeout(patience).Should(HavePrefix("True"))
	})

	It("that takes too long never reboots under abort, and is tried again", func(ctx SpecContext) {
		createNode(ctx, "aborted", nil)
		runPod(ctx, namespace, "db", "aborted", nil)
		guard(ctx, namespace, "db", 1)
		startController(ctx)
		Expect(createGroup(ctx, "aborted", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("aborted"),
			Drain: api.Drain{Policy: protocol.PolicyAbort, TimeoutSeconds: 1, RetrySeconds: 3},
		})).To(Succeed())
		m := startAgent(ctx, "aborted")
		annotate(ctx, "aborted", protocol.Needed, "kernel")
		Eventually(conditionOf("aborted", rules.ConditionWaiting)).WithContext(ctx).WithTimeout(patience).Should(
			And(HavePrefix("True NodesHeldBack"), ContainSubstring("aborted: called off, and not tried again before"),
				ContainSubstring("Pod "+namespace+"/db: The disruption budget db-stays")))
		Expect(m.Off()).To(BeFalse())
		n, err := core.CoreV1().Nodes().Get(ctx, "aborted", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(n.Spec.Unschedulable).To(BeFalse())

		By("letting it go the second time")
		Expect(core.PolicyV1().PodDisruptionBudgets(namespace).Delete(ctx, "db-stays", metav1.DeleteOptions{})).To(Succeed())
		Eventually(m.Off).WithContext(ctx).WithTimeout(patience).Should(BeTrue())
		Expect(state("aborted")(ctx).InProgress).To(HaveValue(HaveField("Epoch", BeNumerically(">=", 2))))
	})
})
