package model_test

import (
	"github.com/homeostat/homeostat/internal/test/overlay"
)

// patient are the safeguards about time and the outside world, which the worlds
// of the whole operator find, or a test of one package.
func patient() []safeguard {
	const agentRules, progress = "rules/agent.go", "rules/progress.go"
	return []safeguard{
		{"the end of the window before the machine is told", []overlay.Edit{
			{File: progress, Old: "if s.Shut {", New: "if s.Shut && false {"},
		}, "I9", played(nightly)},
		{"the start that has told the machine", []overlay.Edit{
			{File: agentRules, Old: "p.Asked.Start == start:", New: "true:"},
			{File: resume, Old: "|| now.Asked.Start != a.options.Start", New: ""},
		}, "I5", played(containers)},
		{"the time after which a machine has not rebooted", []overlay.Edit{
			{File: progress, Old: "StageSince.Add(AnswerTimeout)", New: "StageSince.Add(1000 * AnswerTimeout)"},
		}, "I13", played(containers)},
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
		{"a live look at the node before its reboot", []overlay.Edit{
			{File: resume, Old: "live, err := a.stillInProgress(ctx, node, p)", New: "live, err := node, error(nil)"},
		}, "", tested("agent", "TestARebootThatIsNotInProgressAnyMoreIsNotBroughtAbout")},
	}
}

// nightly has a window that closes while drains are blocked.
func nightly(w *whole) {
	w.patchGroup(`{"spec":{"windows":[{"start":"00:00","end":"02:00"}],"drain":{"policy":"wait"}}}`)
	w.misfortunes = []misfortune{guardedBudget}
}

// containers are machines whose boot id stays.
func containers(w *whole) {
	for _, name := range w.names {
		w.hulls[name].blind, w.judge.monitor.blind[name] = true, true
	}
}

// silence is what agents answer that have died, or never begun.
func silence(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"drain":{"policy":"wait","timeoutSeconds":60}}}`)
	w.budget("guarded", 0, true)
	w.misfortunes = []misfortune{agentDies, agentDies, guardedBudget}
	w.traits[w.names[0]].noAgent = true
}

// loops go through a file that each boot creates.
func loops(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"maxReboots":{"count":1,"hours":24}}}`)
	for _, name := range w.names {
		w.traits[name].sentinel = true
	}
}

// unasked are Pods about which a proxy answers instead of the server, for longer
// than a drain may take before the machine goes down with them.
func unasked(w *whole) {
	w.patchGroup(`{"spec":{"windows":null,"drain":{"policy":"force","timeoutSeconds":60}}}`)
	for _, p := range w.proxies {
		p.swallows = true
	}
}
