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
)

// refer makes the runs without faults: twice the same, and once at a different
// time with different names, which has to stay at rest. It returns the one that
// has failed; nil if none has.
func (x *explorer) refer() *outcome {
	first := x.play(nil, setting{seed: 1})
	x.reference = first
	if first.finding == nil {
		first.unwatched(x.c.Unwatched)
	}
	x.usual = first.writes
	x.report.Failing = first.firstError()
	x.withdrawKnown(nil, first)
	if first.finding != nil {
		return first
	}
	if !x.quiet {
		x.play(nil, setting{seed: 1}) // which compares it
	}
	other := x.play(nil, setting{seed: 2, start: 97 * time.Minute, stay: !x.quiet})
	if other.finding == nil && !x.quiet {
		x.checkWork(other)
	}
	x.withdrawKnown(nil, other)
	if other.finding != nil {
		return other
	}
	x.mask(other)
	x.report.Calls, x.report.Deliveries = len(first.calls), first.deliveries
	for _, c := range first.calls {
		if c.effect {
			x.report.Writes++
		}
	}
	return nil
}

// unwatched finds a resource that the program writes or reads and does not
// watch, unless it is allowed, as Case.Unwatched says. A program without a
// single call does not use the clients of its Env.
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

// checkWork judges a run without faults that has stayed at rest. It finds a
// write that the server refuses again and again, a program that only errs, and
// a program that does nothing that the case asks for. No fault could make those
// worse. A finding that is known does not hide the others.
func (x *explorer) checkWork(o *outcome) {
	before := x.report.KnownFindings
	for _, f := range slices.Concat(o.refusals(), o.failing(), x.idle(o)) {
		o.finding = f
		if !x.withdrawKnown(nil, o) {
			return
		}
		x.report.KnownFindings = before + 1 // one run, whatever is known of it
	}
}

// idle finds a program that writes nothing, in a case that ends as well without
// it. It says nothing of a case with a Goal and something outside, where a
// program may act unseen. A cache that is held against the server is not
// enough: a program whose every reconcile fails has one, too.
func (x *explorer) idle(o *outcome) []*report.Finding {
	if o.wroteAt >= 0 || x.c.Before != nil { // an upgrade may have nothing to write
		return nil
	}
	text := "the program writes nothing, and the case has no Goal: nothing shows that it works"
	if x.c.Goal != nil {
		if x.c.Outside != nil {
			return nil
		}
		c := *x.c
		c.Run = func(env *Env) error { // its memory is reset, and it sees nothing
			ended, end := context.WithCancel(env.Context())
			end()
			boot := env.boot
			boot.Context = ended
			_ = x.c.Parts().Boot(boot)
			<-env.Context().Done()
			return nil
		}
		idle := x.of(&c)
		without, err := idle.inBubble(nil, setting{seed: 1})
		if err != nil || without.finding != nil || without.void || without.wroteAt >= 0 {
			return nil
		}
		text = "the program writes nothing, and the Goal holds without the program: nothing shows that it works. " +
			"If Goal reads what the program keeps in memory, put that into Case.Outside. If it must not write, " +
			"Options.KnownFindings puts this on record: \"the Goal holds without the program\""
	}
	text += o.refusedAll()
	if x.report.Failing != "" {
		text += "; its first error: " + x.report.Failing
	} else {
		text += ". It has logged no error: a program hears the kit by the logger of Env.Context, as a manager of " +
			"controller-runtime does with Options.Logger: logr.FromContextOrDiscard(env.Context())"
	}
	return []*report.Finding{{Oracle: report.Vain, Reason: report.Idle, Text: text}}
}

// onRecord says how a finding is tolerated that is the program's purpose.
const onRecord = "\n  If it has to: a part of this text in Options.KnownFindings puts it on record."

// failing finds errors that the program ends in: after one of them it writes
// nothing, to the end of the workload, it comes at least twice between two
// rests, and once more while the program has to stay at rest, which is longer
// than any usual back-off. An error that does not come again was an answer, for
// example to an object that is not valid, or a wait that is over.
func (o *outcome) failing() []*report.Finding {
	stays := map[string]bool{}
	for _, l := range o.stayed {
		stays[alike(l)] = strings.HasPrefix(l, report.Error)
	}
	var all []*report.Finding
	from, found := 0, map[string]bool{}
	for _, to := range o.restedAt {
		seen := map[string]bool{}
		for i := max(from, o.wroteAt+1); i < to; i++ {
			like := alike(o.lines[i])
			text, isError := strings.CutPrefix(o.lines[i], report.Error)
			if isError && seen[like] && stays[like] && !found[like] {
				found[like] = true
				all = append(all, &report.Finding{
					Oracle: report.Vain, Reason: report.OnlyFails, UpTo: i + 1, Text: "the program ends in errors, " +
						"again and again, and no write follows: " + text +
						onRecord,
				})
			}
			seen[like] = seen[like] || isError
		}
		from = to
	}
	return all
}

// These differ between two attempts that fail alike: numbers, delays, and the
// names of attempts. Digits of an object's name, namespace and version stay.
var (
	attempts = regexp.MustCompile(`"(causes|reconcileID)"=("[^"]*"|\[[^\]]*\]|\S*)|(="?|[\s(])\d[\d.a-zµ]*\b`)
	objects  = regexp.MustCompile(`"(namespace|name)"="[^"]*"`)
)

// alike is the same for the errors of two attempts at one object.
func alike(text string) string {
	return attempts.ReplaceAllString(text, "#") + strings.Join(objects.FindAllString(text, -1), "")
}

// firstError is the first error that the program logged in a run, or "": not
// that of a call that its last stop cut off.
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
