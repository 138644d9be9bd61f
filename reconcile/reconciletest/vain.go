package reconciletest

import (
	"errors"
	"regexp"
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// vain finds, in the run without faults, a program that only errs, and one that does nothing that the case asks for: no
// fault could make it worse. A finding that is known does not hide the others.
func (x *explorer) vain(o *outcome) {
	for _, l := range o.lines {
		if text, found := strings.CutPrefix(l, report.Error); found && x.report.Failing == "" {
			x.report.Failing = text
		}
	}
	if x.quiet {
		return
	}
	before := x.report.Known
	for _, f := range append(o.failing(), x.idle(o)...) {
		o.finding = f
		if !x.forgive(nil, o) {
			return
		}
		x.report.Known = before + 1 // one run, whatever is known of it
	}
}

// numbers are what differs between two attempts that fail alike: delays, counts, versions.
var numbers = regexp.MustCompile(`\d[\d.a-zµ]*`)

// failing finds errors after which the program writes nothing, to the end of the workload: each that comes at least
// twice between two rests. An error that is not retried is an answer, for example to an object that is not valid; after
// one that is, and then a write, the program has got what it waited for.
func (o *outcome) failing() []*report.Finding {
	var all []*report.Finding
	from, found := 0, map[string]bool{}
	for _, to := range o.restedAt {
		seen := map[string]bool{}
		for i := max(from, o.wroteAt+1); i < to; i++ {
			text, isError := strings.CutPrefix(o.lines[i], report.Error)
			alike := numbers.ReplaceAllString(text, "#")
			if isError && seen[alike] && !found[alike] {
				found[alike] = true
				all = append(all, &report.Finding{Oracle: report.Vain, UpTo: i + 1, Text: "the program ends in errors, " +
					"again and again, and no write follows: " + text +
					"\n  If it has to: a part of this text in Options.Known puts it on record."})
			}
			seen[alike] = seen[alike] || isError
		}
		from = to
	}
	return all
}

// idle finds a program that writes nothing, in a case that ends as well without it. It says nothing of a case with a
// cache to hold against the server, or with something outside, where a program may act unseen.
func (x *explorer) idle(o *outcome) []*report.Finding {
	if o.wroteAt >= 0 || o.cached {
		return nil
	}
	text := "the program writes nothing, and the case has no Goal: nothing shows that it works"
	if x.c.Goal != nil {
		if x.c.Outside != nil {
			return nil
		}
		c := *x.c
		c.Run = func(env *Env) error {
			<-env.Context().Done()
			return nil
		}
		idle := x.of(&c)
		without, err := idle.inBubble(nil, setting{seed: 1})
		if err != nil || without.finding != nil || without.void {
			return nil
		}
		text = "the program writes nothing, and the Goal holds without the program: nothing shows that it works. " +
			"If it must not write, Options.Known puts this on record: \"the Goal holds without the program\""
	}
	if x.report.Failing != "" {
		text += "; its first error: " + x.report.Failing
	}
	return []*report.Finding{{Oracle: report.Vain, Text: text}}
}

var errGoexit = errors.New("it has ended its goroutine, as FailNow, Fatal and require do: it has to return an error")

// ask calls Goal or Always, whose failures are errors: FailNow would end the goroutine that drives the run.
func ask(f func(w *World) error, w *World) error {
	answer := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { answer <- err }()
		err = f(w)
	}()
	return <-answer
}
