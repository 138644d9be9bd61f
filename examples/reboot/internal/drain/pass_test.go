package drain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A fixture is a simulated server with Pods.
type fixture struct {
	*gomega.WithT
	ctx  context.Context
	core kubernetes.Interface
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{WithT: gomega.NewWithT(t), ctx: t.Context()}
	sim, err := apisim.New(nil)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.core = kubernetes.NewForConfigOrDie(sim.Admin())
	return f
}

// pod creates a running Pod on the node n1, unless changed.
func (f *fixture) pod(name string, changes ...func(*corev1.Pod)) {
	grace := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: "n1", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	created, err := f.core.CoreV1().Pods("default").Create(f.ctx, pod, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	created.Status = pod.Status
	_, err = f.core.CoreV1().Pods("default").UpdateStatus(f.ctx, created, metav1.UpdateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
}

// budget guards the Pods with the label app.
func (f *fixture) budget(name, app string, allowed int32) {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
	created, err := f.core.PolicyV1().PodDisruptionBudgets("default").Create(f.ctx, budget, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	created.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: created.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1 - allowed, ExpectedPods: 1,
	}
	_, err = f.core.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(f.ctx, created, metav1.UpdateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
}

func (f *fixture) names() []string {
	list, err := f.core.CoreV1().Pods("").List(f.ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (f *fixture) evict() drain.Pass {
	pass, err := drain.New(drain.Pods(f.core.CoreV1()), "n1").Pass(f.ctx, true)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return pass
}

func owned(kind, version string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "o", UID: "u", Controller: &yes}}
	}
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

func mirror(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func TestEveryPodLeavesTheNodeExceptThese(t *testing.T) {
	f := newFixture(t)
	f.pod("bare")
	f.pod("of-a-replicaset", owned("ReplicaSet", "apps/v1"))
	f.pod("of-a-daemonset-of-its-own", owned("DaemonSet", "example.com/v1"))
	f.pod("pending", phase(corev1.PodPending))
	f.pod("of-a-daemonset", owned("DaemonSet", "apps/v1"))
	f.pod("mirror", mirror)
	f.pod("succeeded", phase(corev1.PodSucceeded))
	f.pod("failed", phase(corev1.PodFailed))
	f.pod("elsewhere", func(pod *corev1.Pod) { pod.Spec.NodeName = "n2" })
	pass := f.evict()
	f.Expect(left(pass)).To(gomega.Equal([]string{
		"default/bare", "default/of-a-daemonset-of-its-own", "default/of-a-replicaset", "default/pending",
	}))
	f.Expect(pass.Refusals()).To(gomega.BeEmpty())
	f.Expect(pass.Over()).To(gomega.BeFalse(), "nothing is known until the next pass")
	f.Expect(f.names()).To(gomega.ConsistOf("of-a-daemonset", "mirror", "succeeded", "failed", "elsewhere"))
	f.Expect(f.evict().Over()).To(gomega.BeTrue())
}

func TestARefusalNamesThePodAndItsBudget(t *testing.T) {
	f := newFixture(t)
	f.pod("web")
	f.pod("other")
	f.budget("web-stays", "web", 0)
	pass := f.evict()
	f.Expect(left(pass)).To(gomega.Equal([]string{"default/other", "default/web"}))
	f.Expect(pass.Refusals()).To(gomega.Equal(
		"Pod default/web: The disruption budget web-stays needs 1 healthy pods and has 1 currently"))
	f.Expect(pass.Leftovers()).To(gomega.And(gomega.HavePrefix("Pod default/web: The disruption"),
		gomega.HaveSuffix("; Pod default/other is still terminating")))
	f.Expect(f.names()).To(gomega.ConsistOf("web"))
	f.budget("twice", "web", 1)
	f.Expect(f.evict().Refusals()).To(gomega.ContainSubstring("more than one PodDisruptionBudget"))
}

func TestABudgetThatAllowsItIsAsked(t *testing.T) {
	f := newFixture(t)
	f.pod("web")
	f.budget("web-may-go", "web", 1)
	f.Expect(f.evict().Refusals()).To(gomega.BeEmpty())
	f.Expect(f.names()).To(gomega.BeEmpty())
}

func TestATerminatingPodIsNotEvictedAgain(t *testing.T) {
	f := newFixture(t)
	f.pod("slow", func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/wait"} })
	f.budget("slow", "slow", 1)
	f.Expect(left(f.evict())).To(gomega.Equal([]string{"default/slow"}))
	pass := f.evict() // the budget allows no more
	f.Expect(pass.Refusals()).To(gomega.BeEmpty())
	f.Expect(pass.Leftovers()).To(gomega.Equal("Pod default/slow is still terminating"))
}

// The Pod of a StatefulSet is created again under its name, on another node.
func TestAnotherPodOfThatNameIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.pod("db-0")
	stale, err := f.core.CoreV1().Pods("default").List(f.ctx, metav1.ListOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(f.core.CoreV1().Pods("default").Delete(f.ctx, "db-0", metav1.DeleteOptions{})).To(gomega.Succeed())
	f.pod("db-0", func(pod *corev1.Pod) { pod.Spec.NodeName = "n2" })
	pass, err := drain.New(scripted{Client: drain.Pods(f.core.CoreV1()), list: stale}, "n1").Pass(f.ctx, true)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(pass.Refusals()).To(gomega.BeEmpty())
	f.Expect(f.names()).To(gomega.ConsistOf("db-0"))
}

func TestWithoutAnAnswerNothingIsConcluded(t *testing.T) {
	g := gomega.NewWithT(t)
	lost := errors.New("no route to host")
	pods := scripted{list: listOf(podIn("default", "a")), evict: func(*policyv1.Eviction) error { return lost }}
	pass, err := drain.New(pods, "n1").Pass(t.Context(), true)
	g.Expect(err).To(gomega.MatchError("evicting Pod default/a: no route to host"))
	g.Expect(pass.Over()).To(gomega.BeFalse())
	g.Expect(pass.NotAsked()).To(gomega.Equal(1))
	g.Expect(pass.Refusals()).To(gomega.Equal("Pod default/a: no answer to its eviction: no route to host"))
	pods.list, pods.err = nil, lost
	_, err = drain.New(pods, "n1").Pass(t.Context(), true)
	g.Expect(err).To(gomega.MatchError(`listing the Pods of node "n1": no route to host`))
}

// left returns the Pods that are left.
func left(pass drain.Pass) []string {
	var all []string
	for _, l := range pass.Left {
		all = append(all, l.Pod)
	}
	return all
}
