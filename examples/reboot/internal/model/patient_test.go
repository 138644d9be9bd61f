package model_test

import (
	"github.com/homeostat/homeostat/internal/test/overlay"
)

// patient returns the safeguards about time and the outside world. The worlds
// of the whole operator find them, or a test of one package does.
func patient() []safeguard {
	const agentRules, progress = "rules/agent.go", "rules/progress.go"
	return []safeguard{
		{"the end of the window before the machine is told", []overlay.Edit{
			{File: progress, Old: "if s.Shut {", New: "if s.Shut && false {"},
		}, "I9", played(nightly)},
		{"the start that has told the machine", []overlay.Edit{
			{File: agentRules, Old: "p.Asked.Start == start:", New: "true:"},
			{File: tell, Old: "|| current.Asked.Start != a.options.Start", New: ""},
		}, "I5", played(containers)},
		{"the time after which a machine has not rebooted", []overlay.Edit{
			{File: progress, Old: "left := slot.StageSince.Add(SettleTime)", New: "left := slot.StageSince.Add(1000 * SettleTime)"},
		}, "I13", played(containers)},
		{"the first permission of a machine that refuses", []overlay.Edit{
			{File: progress, Old: "permitted.Before(start) {", New: "permitted.Before(start) && false {"},
		}, "I13", played(stubborn)},
		{"the record of a machine that was told and stays up", []overlay.Edit{
			{File: tell, Old: "\t\treturn reconcile.After(pause), nil\n\t}\n\tlive", New: "\t\tm.refusal = errors.New(\"it has not gone down\")\n\t}\n\tlive"},
		}, "", tested("agent", "TestAMachineThatDoesNotGoDownIsToldOnce")},
		{"the time after which an agent counts as dead", []overlay.Edit{
			{File: progress, Old: "if p.Start != \"\" {", New: "if p.Start != \"\" && false {"},
		}, "I13", played(silence)},
		{"the time in which an agent must accept", []overlay.Edit{
			{File: progress, Old: "StageSince.Add(AcceptTimeout)", New: "StageSince.Add(1000 * AcceptTimeout)"},
		}, "I13", played(silence)},
		{"the number of reboots that a node may have", []overlay.Edit{
			{File: "rules/often.go", Old: "if len(times) < count {", New: "if len(times) < 1000*count {"},
		}, "I12", played(loops)},
		{"the Pods that were never asked to leave", []overlay.Edit{
			{File: "rules/drain.go", Old: "notAsked == 0 && ", New: ""},
		}, "I8", played(unasked)},
		{"the doubt about the nodes of the default group while a selector cannot be read", []overlay.Edit{
			{File: "rules/membership.go", Old: "|| len(m.unclear) == 0 {", New: "|| true {"},
		}, "", tested("controller", "TestTheNodesOfTheDefaultGroupWaitWhileASelectorCannotBeRead")},
		{"the time after which a gate that has just closed is asked again", []overlay.Edit{
			{File: reserve, Old: "rules.Sooner(r.After, recheck)", New: "recheck"},
		}, "", tested("controller", "TestAGateThatClosesBetweenTwoQuestionsIsAskedAgain")},
		{"a live look at the node before its reboot", []overlay.Edit{
			{File: tell, Old: "live, err := a.stillInProgress(ctx, node, p)", New: "live, err := node, error(nil)"},
		}, "", tested("agent", "TestTheMachineIsNotToldIfTheRebootIsNoLongerInProgress")},
	}
}

// nightly opens the window for two hours, in which budgets block drains.
func nightly(w *whole) {
	w.patchGroup(`{"spec":{"windows":[{"start":"00:00","end":"02:00"}],"drain":{"policy":"wait"}}}`)
	w.misfortunes = []misfortune{guardedBudget}
}

// containers gives every machine a boot id that stays, as in a container.
func containers(w *whole) {
	for _, name := range w.names {
		w.hulls[name].blind, w.judge.monitor.blind[name] = true, true
	}
}

// stubborn lets every other machine refuse to reboot, and the others answer and
// do nothing.
func stubborn(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"maxReboots":{"count":100},"drain":{"policy":"abort"}}}`)
	w.misfortunes = []misfortune{newBudget}
	for i, name := range w.names {
		w.hulls[name].refuses, w.hulls[name].deaf = i%2 == 0, i%2 == 1
	}
}

// silence lets agents die while budgets block their drains. The agent of one
// node never starts.
func silence(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"drain":{"policy":"wait","timeoutSeconds":60}}}`)
	w.budget("guarded", 0, true)
	w.misfortunes = []misfortune{agentDies, agentDies, guardedBudget}
	w.traits[w.names[0]].noAgent = true
}

// loops lets each boot of a machine create the file that requests a reboot.
func loops(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"maxReboots":{"count":1,"hours":24}}}`)
	for _, name := range w.names {
		w.traits[name].sentinel = true
	}
}

// unasked lets a proxy answer every eviction, so that no Pod is asked to leave,
// under the policy that reboots with the Pods that are left.
func unasked(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"drain":{"policy":"force","timeoutSeconds":60}}}`)
	for _, p := range w.proxies {
		p.swallows = true
	}
}
