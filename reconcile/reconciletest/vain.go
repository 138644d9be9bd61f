package reconciletest

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
)

// vain finds, in a run without faults that has stayed at rest, a program that only errs, and one that does nothing that
// the case asks for: no fault could make it worse. A finding that is known does not hide the others.
func (x *explorer) vain(o *outcome) {
	before := x.report.Known
	for _, f := range append(o.failing(), x.idle(o)...) {
		o.finding = f
		if !x.forgive(nil, o) {
			return
		}
		x.report.Known = before + 1 // one run, whatever is known of it
	}
}

// firstError is the first that the program has logged in a run; "" if there is none.
func (o *outcome) firstError() string {
	for _, l := range o.lines {
		if text, found := strings.CutPrefix(l, report.Error); found {
			return text
		}
	}
	return ""
}

// These differ between two attempts that fail alike: numbers, delays, and the names of attempts. Digits of an object's
// name, namespace and version stay.
var (
	attempts = regexp.MustCompile(`"(causes|reconcileID)"=("[^"]*"|\[[^\]]*\]|\S*)|(="?|[\s(])\d[\d.a-zµ]*\b`)
	objects  = regexp.MustCompile(`"(namespace|name)"="[^"]*"`)
)

// alike is the same for the errors of two attempts at one object.
func alike(text string) string {
	return attempts.ReplaceAllString(text, "#") + strings.Join(objects.FindAllString(text, -1), "")
}

// failing finds errors that the program ends in: after one of them it writes nothing, to the end of the workload, it
// comes at least twice between two rests, and once more while the program has to stay at rest, which is longer than any
// usual back-off. An error that does not come again was an answer, for example to an object that is not valid, or a
// wait that is over.
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
				all = append(all, &report.Finding{Oracle: report.Vain, UpTo: i + 1, Text: "the program ends in errors, " +
					"again and again, and no write follows: " + text +
					"\n  If it has to: a part of this text in Options.Known puts it on record."})
			}
			seen[like] = seen[like] || isError
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
		c.Run = func(env *Env) error { // it begins anew what it keeps in memory, and sees nothing
			ended, end := context.WithCancel(env.Context())
			end()
			boot := env.boot
			boot.Context = ended
			_ = x.c.Boot(boot)
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
			"Options.Known puts this on record: \"the Goal holds without the program\""
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
