package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func TestEveryStateHasItsReason(t *testing.T) {
	group := &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
	holding, queueing := group.DeepCopy(), group.DeepCopy()
	holding.Status.Slots = slotsOf("n")
	queueing.Status.Queue = queueOf("x", "n")
	queueing.Status.Conditions = []metav1.Condition{{Type: rules.ConditionWaiting, Reason: rules.ReasonPaused, Message: "x; paused"}}
	needed := annotated(protocol.Needed, "r")
	progress := func(more string) fixture {
		return annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","acceptedAt":"2026-11-22T12:00:00Z"`+more+`}`)
	}
	calledOff := annotated(protocol.LastReboot,
		`{"request":"r","epoch":1,"toBootID":"b1","at":"2026-11-22T12:00:00Z","result":"called-off","why":"a budget"}`)
	for name, c := range map[string]struct {
		node  []fixture
		group *api.RebootGroup
		state string
		why   string
	}{
		"idle":                 {nil, group, rules.StateIdle, "kubectl reboot request n"},
		"of no group":          {nil, nil, rules.StateIdle, "no RebootGroup has node n yet"},
		"requested":            {[]fixture{needed}, queueing, rules.StateRequested, "number 2 of 2 in the queue of RebootGroup g"},
		"the group's reason":   {[]fixture{needed}, queueing, rules.StateRequested, "the group waits (Paused): x; paused"},
		"not queued":           {[]fixture{needed}, group, rules.StateRequested, "does the controller run?"},
		"paused":               {[]fixture{needed, annotated(protocol.Paused, "true")}, queueing, rules.StateRequested, "kubectl reboot resume n"},
		"reserved":             {[]fixture{needed}, holding, rules.StateReserved, "has reserved a slot"},
		"granted":              {[]fixture{annotated(protocol.Now, nowEpoch1)}, holding, rules.StateGranted, "its agent has not accepted"},
		"draining, abort":      {[]fixture{progress("")}, holding, rules.StateDraining, "called off at 2026-11-22T12:10:00Z"},
		"draining, wait":       {[]fixture{progress(`,"drainPolicy":"wait"`)}, holding, rules.StateDraining, "until the last Pod has left"},
		"draining, force":      {[]fixture{progress(`,"drainPolicy":"force"`)}, holding, rules.StateDraining, "rebooted with what is left at 2026-11-22T12:10:00Z"},
		"blocked":              {[]fixture{progress(`,"blocked":"Pod a/b: budget"`)}, holding, rules.StateBlocked, "refused: Pod a/b: budget"},
		"rebooting":            {[]fixture{progress(`,"drained":true`)}, holding, rules.StateRebooting, "still runs boot b1"},
		"verifying":            {[]fixture{rebooted(1, "b1", start)}, holding, rules.StateVerifying, "keeps its slot of RebootGroup g until it is Ready"},
		"done":                 {[]fixture{rebooted(1, "b1", start)}, group, rules.StateDone, "last: rebooted at " + start.UTC().Format(time.RFC3339)},
		"called off":           {[]fixture{calledOff}, group, rules.StateCalledOff, `for request "r": a budget`},
		"something unreadable": {[]fixture{annotated(protocol.Void, "x")}, group, rules.StateFaulty, protocol.Void},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			node := makeNode("n", c.node...)
			g.Expect(rules.StateOf(node, c.group)).To(gomega.Equal(c.state))
			g.Expect(strings.Join(rules.Why(node, c.group), "\n")).To(gomega.ContainSubstring(c.why))
		})
	}
}
