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
	queueing.Status.Queue[1].NotBefore = metav1.Time{Time: time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)}
	queueing.Status.Conditions = []metav1.Condition{{Type: rules.ConditionWaiting, Reason: rules.ReasonPaused, Message: "x; paused"}}
	rival := &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
	others := queueing.DeepCopy()
	others.Status.Conditions[0] = metav1.Condition{Type: rules.ConditionWaiting, Reason: rules.ReasonNodes, Message: "x: it is paused"}
	only := func(g *api.RebootGroup) []*api.RebootGroup { return []*api.RebootGroup{g} }
	now := time.Date(2026, 11, 22, 12, 20, 0, 0, time.UTC)
	needed := annotated(protocol.Needed, "r")
	progress := func(more string) fixture {
		return annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","acceptedAt":"2026-11-22T12:00:00Z"`+more+`}`)
	}
	calledOff := annotated(protocol.LastReboot,
		`{"request":"r","epoch":1,"toBootID":"b1","at":"2026-11-22T12:00:00Z","result":"called-off","why":"a budget"}`)
	for name, c := range map[string]struct {
		node   []fixture
		groups []*api.RebootGroup
		state  string
		why    string
	}{
		"idle":                {nil, only(group), rules.StateIdle, "kubectl reboot request n"},
		"of no group":         {nil, nil, rules.StateIdle, "no RebootGroup has node n yet"},
		"requested":           {[]fixture{needed}, only(queueing), rules.StateRequested, "number 2 of 2 in the queue of RebootGroup g"},
		"the group's reason":  {[]fixture{needed}, only(queueing), rules.StateRequested, "the group waits (Paused): x; paused"},
		"not queued":          {[]fixture{needed}, only(group), rules.StateRequested, "check that the controller runs"},
		"paused":              {[]fixture{needed, annotated(protocol.Paused, "true")}, only(queueing), rules.StateRequested, "kubectl reboot resume n"},
		"selected by several": {[]fixture{needed}, []*api.RebootGroup{rival, queueing}, rules.StateOverlap, "the RebootGroups f and g select it, and none of them may reboot it until only one selects it: narrow a nodeSelector"},
		"reserved, several":   {[]fixture{needed}, []*api.RebootGroup{rival, holding}, rules.StateOverlap, "RebootGroup g releases the slot"},
		"granted, several":    {[]fixture{annotated(protocol.Now, nowEpoch1)}, []*api.RebootGroup{rival, holding}, rules.StateGranted, "the RebootGroups f and g select it"},
		"called off, queued": {
			[]fixture{needed, calledOff},
			only(queueing), rules.StateRequested,
			"called off, and not tried again before 2026-11-22T12:30:00Z unless the request changes: a budget",
		},
		"called off, and time":   {[]fixture{annotated(protocol.Needed, "r2"), calledOff}, only(queueing), rules.StateRequested, "number 2 of 2"},
		"next, others held back": {[]fixture{needed}, only(others), rules.StateRequested, "number 2 of 2"},
		"reserved":               {[]fixture{needed}, only(holding), rules.StateReserved, "has reserved a slot"},
		"granted":                {[]fixture{annotated(protocol.Now, nowEpoch1)}, only(holding), rules.StateGranted, "its agent has not accepted"},
		"draining, abort":        {[]fixture{progress("")}, only(holding), rules.StateDraining, "called off after 10m0s"},
		"draining, wait":         {[]fixture{progress(`,"drainPolicy":"wait"`)}, only(holding), rules.StateDraining, "until the last Pod has left"},
		"draining, force":        {[]fixture{progress(`,"drainPolicy":"force"`)}, only(holding), rules.StateDraining, "rebooted after 10m0s even if Pods are left"},
		"blocked":                {[]fixture{progress(`,"blocked":"Pod a/b: budget"`)}, only(holding), rules.StateBlocked, "refused: Pod a/b: budget"},
		"rebooting":              {[]fixture{progress(`,"drained":true`)}, only(holding), rules.StateRebooting, "still runs boot b1"},
		"drained":                {[]fixture{progress(`,"start":"s","drained":true,"refused":"inhibited"`)}, only(holding), rules.StateRebooting, "has not been told to reboot yet: inhibited"},
		"verifying":              {[]fixture{rebooted(1, "b1", start)}, only(holding), rules.StateVerifying, "keeps its slot of RebootGroup g until it is Ready"},
		"done":                   {[]fixture{rebooted(1, "b1", start)}, only(group), rules.StateDone, "last: rebooted at " + start.UTC().Format(time.RFC3339)},
		"called off":             {[]fixture{calledOff}, only(group), rules.StateCalledOff, `for request "r": a budget`},
		"something unreadable":   {[]fixture{annotated(protocol.Void, "x")}, only(group), rules.StateFaulty, protocol.Void},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			node := makeNode("n", c.node...)
			place := rules.PlaceOf(node, c.groups)
			g.Expect(rules.StateOf(node, place)).To(gomega.Equal(c.state))
			g.Expect(strings.Join(rules.Why(node, place, now), "\n")).To(gomega.ContainSubstring(c.why))
		})
	}
}
