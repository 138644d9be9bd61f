package agent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// guarded creates a Pod on the node, and a budget that lets that many go.
func (s *stage) guarded(name string, allowed int32) {
	grace := int64(0)
	pod, err := s.core.CoreV1().Pods("default").Create(s.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: "n", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = s.core.CoreV1().Pods("default").UpdateStatus(s.ctx, pod, metav1.UpdateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = s.core.PolicyV1().PodDisruptionBudgets("default").Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}, metav1.CreateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.allow(name, allowed)
}

func (s *stage) allow(name string, allowed int32) {
	budget, err := s.core.PolicyV1().PodDisruptionBudgets("default").Get(s.ctx, name, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1,
	}
	_, err = s.core.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(s.ctx, budget, metav1.UpdateOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}

func terms(policy string) map[string]string {
	return map[string]string{protocol.Now: fmt.Sprintf(`{"request":"r","epoch":1,"at":"2000-01-01T00:00:00Z","drainPolicy":%q,"drainSeconds":60}`, policy)}
}

const refused = "Pod default/web: The disruption budget web needs 1 healthy pods and has 1 currently"

func TestItRebootsOnceTheBudgetLetsThePodGo(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.guarded("web", 0)
		s.accept(terms(protocol.PolicyAbort))
		s.pass(30 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.Expect(s.node().Spec.Unschedulable).To(gomega.BeTrue())
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("Blocked", refused), gomega.HaveField("Drained", false))))
		s.Expect(s.events.count("EvictionBlocked")).To(gomega.Equal(1), "not once a pass")
		s.Expect(s.events.texts("EvictionBlocked")).To(gomega.ConsistOf(refused))
		s.allow("web", 1)
		s.pass(15 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(protocol.Read(s.node()).InProgress).To(gomega.HaveValue(gomega.And(
			gomega.HaveField("Blocked", ""), gomega.HaveField("Drained", true))))
	})
}

func TestAFailedDrainContinuesUnderPolicyWait(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.guarded("web", 0)
		s.accept(terms(protocol.PolicyWait))
		s.pass(time.Hour)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.allow("web", 1)
		s.pass(15 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

func TestADrainThatFailsRebootsUnderForce(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.guarded("web", 0)
		s.accept(terms(protocol.PolicyForce))
		s.pass(50 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.pass(20 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
		s.Expect(s.events.texts("DrainForced")).To(gomega.ConsistOf(gomega.ContainSubstring(refused)))
	})
}

func TestAnAgentThatCannotListPodsDoesNotReboot(t *testing.T) {
	play(t, nil, func(s *stage) {
		s.pods.fail(errors.New("no route to host"))
		s.accept(terms(protocol.PolicyAbort))
		s.pass(50 * time.Second)
		s.Expect(s.machine.Off()).To(gomega.BeFalse())
		s.pods.fail(nil)
		s.pass(time.Minute)
		s.Expect(s.machine.Off()).To(gomega.BeTrue())
	})
}

func TestThePodsThatItWaitsForAreLoggedOnce(t *testing.T) {
	play(t, nil, func(s *stage) {
		for _, name := range []string{"a", "b"} {
			s.guarded(name, 1)
			s.pod(name, `{"metadata":{"finalizers":["example.com/slow"]}}`)
		}
		s.accept(terms(protocol.PolicyWait))
		s.pass(time.Minute)
		s.Expect(s.logged("waiting for Pods to end")).To(gomega.ConsistOf(
			gomega.ContainSubstring(`"left"="Pod default/a is still terminating; Pod default/b is still terminating"`)))
		s.pod("a", `{"metadata":{"finalizers":null}}`)
		s.pass(time.Minute)
		s.Expect(s.logged("waiting for Pods to end")).To(gomega.HaveExactElements(gomega.ContainSubstring("default/a"),
			gomega.ContainSubstring(`"left"="Pod default/b is still terminating"`)))
	})
}

func (s *stage) pod(name, change string) {
	_, err := s.core.CoreV1().Pods("default").Patch(s.ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
}
