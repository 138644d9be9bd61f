package rules_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func TestTheQueueHasAReasonForEachThatWaits(t *testing.T) {
	needed, notReady := annotated(protocol.Needed, "r"), ready(corev1.ConditionFalse)
	paused := annotated(protocol.Paused, "true")
	calledOff := annotated(protocol.LastReboot,
		`{"request":"r","epoch":1,"toBootID":"b1","at":"2026-11-22T12:00:00Z","result":"called-off","why":"a budget"}`)
	for name, c := range map[string]struct {
		facts rules.Facts
		want  string
	}{
		"one that only needs a slot": {rules.Facts{
			Slots: slotsOf("x"), Queue: queueOf("a"), Members: []*corev1.Node{makeNode("a", needed), makeNode("x")},
		}, "MaxUnavailableReached oldest first: a; 1 of 1 may be unavailable: x"},
		"behind one that is paused": {rules.Facts{
			Slots: slotsOf("x"), Queue: queueOf("a", "b"),
			Members: []*corev1.Node{makeNode("a", needed, paused), makeNode("b", needed), makeNode("x")},
		}, "MaxUnavailableReached oldest first: a; b; 1 of 1 may be unavailable: x; " +
			"also held back: a: it is paused: remove its annotation reboot.homeostat.dev/reboot-paused"},
		"each for its own reason": {rules.Facts{
			Queue: queueOf("a", "b", "c", "d"), Barred: map[string]string{"b": "others select it"},
			Members: []*corev1.Node{
				makeNode("a", needed, calledOff), makeNode("b", needed), makeNode("c", needed, paused),
				makeNode("d", needed, annotated(protocol.Void, "x")),
			},
		}, "NodesHeldBack oldest first: a; b; c; d; " +
			"a: called off, and not tried again before 2026-11-22T13:00:00Z unless the request changes: a budget; b: others select it; " +
			"c: it is paused: remove its annotation reboot.homeostat.dev/reboot-paused; d: it has an annotation that cannot be read"},
		"called off, but long ago": {rules.Facts{
			Slots: slotsOf("x"), Queue: queueOf("a"), Now: time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC),
			Members: []*corev1.Node{makeNode("a", needed, calledOff)},
		}, "MaxUnavailableReached oldest first: a; 1 of 1 may be unavailable: x"},
		"not Ready, and not counted against itself": {rules.Facts{
			Queue: queueOf("a"), Members: []*corev1.Node{makeNode("a", needed, notReady)},
		}, "NextInLine oldest first: a; a slot is free for a"},
		"others are not Ready": {rules.Facts{
			Queue: queueOf("a"), Members: []*corev1.Node{makeNode("a", needed), makeNode("x", notReady)},
		}, "MaxUnavailableReached oldest first: a; 1 of 1 may be unavailable; not Ready without a slot: x"},
		"the window is closed": {rules.Facts{
			Queue: queueOf("a"), Closed: "it opens later", Members: []*corev1.Node{makeNode("a", needed, paused)},
		}, "OutsideWindow oldest first: a; it opens later"},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.facts
			f.Group, f.Limit = &api.RebootGroup{}, 1
			for i := range f.Queue { // called off at noon
				f.Queue[i].NotBefore = metav1.Time{Time: time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)}
			}
			if f.Now.IsZero() {
				f.Now = time.Date(2026, 11, 22, 12, 20, 0, 0, time.UTC)
			}
			got := meta.FindStatusCondition(rules.Report(f), rules.ConditionWaiting)
			gomega.NewWithT(t).Expect(got.Reason + " " + got.Message).To(gomega.Equal(c.want))
		})
	}
}

func TestADrainIsReportedAlsoForANodeThatHasMovedAway(t *testing.T) {
	guest := makeNode("n", annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","blocked":"Pod a/b: budget"}`))
	conditions := rules.Report(rules.Facts{Group: &api.RebootGroup{}, Limit: 1, Slots: slotsOf("n"), Guests: []*corev1.Node{guest}})
	gomega.NewWithT(t).Expect(meta.FindStatusCondition(conditions, rules.ConditionDrained)).To(gomega.HaveValue(gomega.And(
		gomega.HaveField("Status", metav1.ConditionFalse), gomega.HaveField("Message", "n: Pod a/b: budget"))))
}
