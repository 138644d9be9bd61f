package controller_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
)

// No event follows a write that was refused: only the error makes it try again.
func TestARefusedWriteIsRetried(t *testing.T) {
	play(t, func(s *stage) {
		s.pass(time.Minute)
		s.groups.refuses.Store(true)
		s.asking("n1")
		s.pass(time.Minute)
		_, err := s.groups.Get(s.ctx, api.DefaultName, metav1.GetOptions{})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
		s.groups.refuses.Store(false)
		s.until(func() bool { return s.exists(api.DefaultName) && len(s.holders(api.DefaultName)) > 0 })
		s.Expect(s.holders(api.DefaultName)).To(gomega.Equal([]string{"n1"}), "the built-in group is made")
		s.change("n1", accepted(`"drainSeconds":6000`))

		s.groups.refuses.Store(true)
		s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.asking("n2")
		s.pass(time.Minute)
		s.Expect(s.holders(api.DefaultName)).To(gomega.Equal([]string{"n1"}))
		s.groups.refuses.Store(false)
		s.until(func() bool { return len(s.holders(api.DefaultName)) == 0 || s.holders(api.DefaultName)[0] == "n2" })
		s.pass(time.Second)
		s.Expect(s.holders(api.DefaultName)).To(gomega.Equal([]string{"n2"}), "slots are released, and given out")
	})
}

// The ledger cannot be written, so the stage of n1 cannot be recorded. The
// reboot of n2 has begun and needs no ledger: it must not leave n2 cordoned.
func TestARefusedLedgerDoesNotHoldUpAnotherNode(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(2), nil)
		s.asking("n1", "n2")
		s.until(func() bool { return s.state("n1").Now != nil && s.state("n2").Now != nil })
		s.groups.refuses.Store(true)
		s.change("n1", accepted(`"drainSeconds":6000`))
		s.change("n2", accepted(`"drainSeconds":6000,"drained":true,"try":1,"waits":true`))
		s.until(func() bool { return s.state("n2").Permit != nil })
		s.Expect(s.logged("not now")).NotTo(gomega.BeEmpty(), "the refusal is logged")
		s.groups.refuses.Store(false)
		s.until(func() bool { return s.status("g").Slots[0].Stage == "draining" })
	})
}

// until lets time pass until done, but no more than ten minutes.
func (s *stage) until(done func() bool) {
	for range 600 {
		if s.pass(time.Second); done() {
			return
		}
	}
	s.Expect(done()).To(gomega.BeTrue(), "in ten minutes")
}

func TestASlotOfADeletedGroupIsNotAFault(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.asking("n1")
		s.pass(time.Minute)
		s.groups.shut.Store(true)
		const bare = `{"metadata":{"finalizers":null}}`
		_, err := s.groups.Patch(s.ctx, "g", types.MergePatchType, []byte(bare), metav1.PatchOptions{})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.Expect(s.groups.Delete(s.ctx, "g", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.Expect(s.core.CoreV1().Nodes().Delete(s.ctx, "n1", metav1.DeleteOptions{})).To(gomega.Succeed())
		s.pass(time.Minute)
		stats := s.controller.Control().Stats()
		s.Expect(stats.Panics).To(gomega.BeZero())
	})
}

func TestAStatusNamesTheGenerationOfItsSpec(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.pass(time.Minute)
		s.Expect(s.status("g").ObservedGeneration).To(gomega.BeEquivalentTo(1))
		_, err := s.groups.Patch(s.ctx, "g", types.MergePatchType, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
		s.Expect(err).NotTo(gomega.HaveOccurred())
		s.pass(time.Minute)
		s.Expect(s.status("g").ObservedGeneration).To(gomega.BeEquivalentTo(2))
	})
}

func TestMetricsOfAGroupInWhichNothingHappensAreZero(t *testing.T) {
	play(t, func(s *stage) {
		s.group("g", intstr.FromInt32(1), nil)
		s.node("n1", nil)
		s.pass(time.Minute)
		s.Expect(s.measured()).To(gomega.And(
			gomega.HaveKeyWithValue("reboot_group_nodes", 1.0), gomega.HaveKeyWithValue("reboot_group_slots", 0.0),
			gomega.HaveKeyWithValue("reboot_group_requests", 0.0), gomega.HaveKeyWithValue("reboot_group_blocked_drains", 0.0),
			gomega.HaveKeyWithValue("reboot_group_oldest_request_seconds", 0.0),
			gomega.HaveKeyWithValue("reboot_group_oldest_slot_seconds", 0.0),
		))
	})
}

func TestOptionsOfTheSDKAreCheckedToo(t *testing.T) {
	play(t, func(s *stage) {
		s.pass(time.Second) // a stop before the first list is an error
		_, err := controller.New(s.core.CoreV1().Nodes(), s.groups, &controller.Options{Workers: -1})
		s.Expect(err).To(gomega.MatchError(gomega.And(gomega.HavePrefix("making the reboot controller: "),
			gomega.ContainSubstring("Options.Workers is -1"))))
		_, err = controller.New(s.core.CoreV1().Nodes(), s.groups, &controller.Options{GatePeriod: -1})
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("Options.GatePeriod is -1ns")))
	})
}
