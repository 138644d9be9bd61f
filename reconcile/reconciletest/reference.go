package reconciletest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// refer makes the runs without faults. Two of them are the same; a quiet
// explorer makes only one of these. The last run begins at a different time and
// generates different names, and must also stay at rest at its end, unless the
// explorer is quiet. refer returns the run that has failed, or nil.
func (x *explorer) refer() *outcome {
	first := x.play(nil, setting{seed: 1})
	x.reference = first
	if first.finding == nil {
		first.unwatched(x.c.Unwatched)
	}
	x.usual, x.samples = first.writes, x.c.samplesOf(first.states)
	if len(first.states) > 0 {
		x.foreign = state.BuiltinFields.Union(x.customFields(first))
	}
	x.report.Failing = first.firstError()
	x.withdrawKnown(nil, first)
	if first.finding != nil {
		return first
	}
	if !x.quiet {
		x.play(nil, setting{seed: 1}) // play compares this run with the first one
	}
	second := x.play(nil, setting{seed: 2, start: 97 * time.Minute, stay: !x.quiet})
	if second.finding == nil && !x.quiet {
		x.checkWork(second)
	}
	x.withdrawKnown(nil, second)
	if second.finding != nil {
		return second
	}
	x.mask(second)
	x.report.Calls, x.report.Deliveries = len(first.calls), first.deliveries
	for _, c := range first.calls {
		if c.effect {
			x.report.Writes++
		}
	}
	return nil
}

// unwatched records a finding if the program writes or reads a resource that it
// does not watch and that is not in allowed. It also records a finding if the
// program makes no call at all, because it then does not use the clients of its
// Env.
func (o *outcome) unwatched(allowed []string) {
	if len(o.calls) == 0 {
		o.finding = &report.Finding{Oracle: report.Watch, Reason: report.NoCalls, Text: "the program makes no call"}
		return
	}
	for verb, resources := range map[string]map[string]bool{"writes": o.uses.written, "reads": o.uses.read} {
		for _, resource := range slices.Sorted(maps.Keys(resources)) {
			if !o.uses.watched[resource] && !slices.Contains(allowed, resource) {
				o.finding = &report.Finding{Oracle: report.Watch, Reason: report.Unwatched, Text: fmt.Sprintf(
					"it %s %s and does not watch them: "+
						"it cannot see when another client changes or deletes them", verb, resource)}
				return
			}
		}
	}
}

// checkWork judges a run without faults that has stayed at rest. It finds
// writes that the server refuses again and again, programs that end up
// repeating an error, and programs that do not work at all. Runs with faults
// would not show these bugs. A known finding does not hide the others.
func (x *explorer) checkWork(o *outcome) {
	knownBefore := x.report.KnownFindings
	x.endures = o.refused
	for _, f := range slices.Concat(o.refusals("without any fault"), o.failing(), x.idle(o)) {
		o.finding = f
		if !x.withdrawKnown(nil, o) {
			return
		}
		x.report.KnownFindings = knownBefore + 1 // the run counts once, even if it has several known findings
	}
}

// idle finds a program that does not write, if the case ends in the same way
// without it. It reports no finding for a case with both Goal and Outside,
// where the program may change only state outside the server. A cache that
// matches the server does not show that the program works, because a program
// has such a cache even if every reconcile fails.
func (x *explorer) idle(o *outcome) []*report.Finding {
	if o.wroteAt >= 0 || x.c.Before != nil { // after an upgrade there may be no work
		return nil
	}
	text := "the program writes nothing, and the case has no Goal: nothing shows that it works"
	if x.c.Goal != nil {
		if x.c.Outside != nil {
			return nil
		}
		c := *x.c
		c.Run = func(env *Env) error { // the context of env has ended: this boot only resets the program's memory
			ended, end := context.WithCancel(env.Context())
			end()
			boot := env.boot
			boot.Context = ended
			_ = x.c.Parts().Boot(boot)
			<-env.Context().Done()
			return nil
		}
		idle := x.forCase(&c)
		idleRun, err := idle.inBubble(nil, setting{seed: 1})
		if err != nil || idleRun.finding != nil || idleRun.void || idleRun.wroteAt >= 0 {
			return nil
		}
		text = "the program writes nothing, and the Goal holds without the program: nothing shows that it works. " +
			"If Goal reads what the program keeps in memory, put that into Case.Outside. If it must not write, " +
			"add \"the Goal holds without the program\" to Options.KnownFindings"
	}
	text += o.refusedAll()
	if x.report.Failing != "" {
		text += "; its first error: " + x.report.Failing
	} else {
		text += ". It has logged no error: the kit sees only errors that the program logs with the logger of Env.Context, " +
			"as a manager of controller-runtime does with Options.Logger: logr.FromContextOrDiscard(env.Context())"
	}
	return []*report.Finding{{Oracle: report.Vain, Reason: report.Idle, Text: text}}
}

// onRecord tells users how to tolerate a finding that describes what the
// program is meant to do.
const onRecord = "\n  If the program has to do this, add a part of this text to Options.KnownFindings."

// failing finds errors that the program ends up repeating. The program does not
// write between such an error and the end of the workload. The error occurs at
// least twice between two rests, and once more while the program has to stay at
// rest. That time is longer than a usual back-off. An error that is not
// repeated is not a finding: it may be the reaction to an invalid object, or a
// wait that is over.
func (o *outcome) failing() []*report.Finding {
	stays := map[string]bool{}
	for _, l := range o.stayed {
		stays[alike(l)] = strings.HasPrefix(l, report.Error)
	}
	var findings []*report.Finding
	start, found := 0, map[string]bool{}
	for _, end := range o.restedAt {
		seen := map[string]bool{}
		for i := max(start, o.wroteAt+1); i < end; i++ {
			pattern := alike(o.lines[i])
			text, isError := strings.CutPrefix(o.lines[i], report.Error)
			if isError && seen[pattern] && stays[pattern] && !found[pattern] {
				found[pattern] = true
				findings = append(findings, &report.Finding{
					Oracle: report.Vain, Reason: report.OnlyFails, UpTo: i + 1, Text: "the program ends in errors, " +
						"again and again, and no write follows: " + text +
						onRecord,
				})
			}
			seen[pattern] = seen[pattern] || isError
		}
		start = end
	}
	return findings
}

// attempts matches the parts of an error that differ between two attempts that
// fail alike: numbers, delays, and the names of attempts. objects matches names
// and namespaces, whose digits must not be ignored.
var (
	attempts = regexp.MustCompile(`"(causes|reconcileID)"=("[^"]*"|\[[^\]]*\]|\S*)|(="?|[\s(])\d[\d.a-zµ]*\b`)
	objects  = regexp.MustCompile(`"(namespace|name)"="[^"]*"`)
)

// alike returns text without the parts that differ between two attempts for one
// object. Equal errors then have equal texts.
func alike(text string) string {
	return attempts.ReplaceAllString(text, "#") + strings.Join(objects.FindAllString(text, -1), "")
}

// firstError returns the first error that the program has logged in a run, or
// "". It ignores errors of calls that the last stop has canceled.
func (o *outcome) firstError() string {
	rested := len(o.lines)
	if n := len(o.restedAt); n > 0 {
		rested = o.restedAt[n-1]
	}
	for i, l := range o.lines {
		cut := i >= rested && strings.Contains(l, context.Canceled.Error())
		if text, found := strings.CutPrefix(l, report.Error); found && !cut {
			return text
		}
	}
	return ""
}
