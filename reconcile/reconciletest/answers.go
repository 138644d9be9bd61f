package reconciletest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// answers records what the server answers to the program, by itself and not
// because of a fault: it adds refusals to the trace, and finds a write that is
// refused again and again.
//
// Its methods run in the goroutine that made the call, one at a time, while
// the run waits: no lock is needed.
type answers struct {
	*core
	line    int  // the line of the trace of the call that is being served; -1: it has none
	staying bool // the program has to stay at rest
}

// refusal is a write that the server has refused, with its latest answer.
type refusal struct {
	write, answer string
	first, last   time.Time
	times         int
	line          int  // of the latest one
	done          bool // the write has succeeded since
	stays         bool // it was refused while the program had to stay at rest
}

// oftenRefused is how many refusals of the same write are needed for a finding.
const oftenRefused = 3

// longest is how much of a message the trace shows.
const longest = 120

// see gets the answer of a call.
func (r *answers) see(c apisim.Call, a apisim.Answer) {
	if state.Ignored(c.Resource.GroupResource()) || !ofProgram(c.Client) {
		return
	}
	text := textOf(a)
	streams := c.Verb == "watch" && a.Code == http.StatusUnprocessableEntity // the server does not stream lists
	if r.line >= 0 && r.line < len(r.out.lines) && a.Code >= http.StatusBadRequest && !streams {
		r.out.lines[r.line] += report.Answered + text
	}
	if !c.Write() {
		return
	}
	r.out.asked++
	if final(c, a) {
		r.note(c, text)
	} else if a.Code < http.StatusBadRequest {
		r.succeeded(c)
	}
}

// textOf is an answer as the trace shows it.
func textOf(a apisim.Answer) string {
	message := a.Message
	switch a.Code {
	case http.StatusNotFound:
		message = ""
	case http.StatusConflict:
		message = string(a.Reason)
	}
	if runes := []rune(message); len(runes) > longest {
		message = string(runes[:longest]) + "…"
	}
	return strings.TrimSpace(fmt.Sprint(a.Code, " ", strings.ReplaceAll(message, "\n", " ")))
}

// final reports whether the answer to a write is a refusal that repeating the
// write does not change. A second create, or a second delete, finds the work
// done, and 429 and 5xx ask for a retry.
func final(c apisim.Call, a apisim.Answer) bool {
	switch a.Code {
	case http.StatusNotFound:
		return !strings.HasPrefix(c.Verb, "delete")
	case http.StatusConflict:
		return a.Reason != metav1.StatusReasonAlreadyExists
	case http.StatusTooManyRequests:
		return false
	}
	return a.Code >= http.StatusBadRequest && a.Code < http.StatusInternalServerError
}

// writeOf names a write: its verb and its object.
func writeOf(c apisim.Call) string {
	resource := c.Resource.GroupResource().String()
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return c.Verb + " " + resource + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
}

func (r *answers) note(c apisim.Call, answer string) {
	write := writeOf(c)
	at := slices.IndexFunc(r.out.refused, func(f *refusal) bool { return f.write == write && !f.done })
	if at < 0 {
		at = len(r.out.refused)
		r.out.refused = append(r.out.refused, &refusal{write: write, first: time.Now()})
	}
	f := r.out.refused[at]
	f.answer, f.last, f.line = answer, time.Now(), r.line
	f.times++
	f.stays = f.stays || r.staying
}

// succeeded forgets the refusals of a write that the server has taken.
func (r *answers) succeeded(c apisim.Call) {
	write := writeOf(c)
	for _, f := range r.out.refused {
		f.done = f.done || f.write == write
	}
}

// refusals finds the writes that the program repeats, and the server refuses, to
// the end of a run without faults that has stayed at rest.
func (o *outcome) refusals() []*report.Finding {
	var all []*report.Finding
	for _, f := range o.refused {
		if f.done || !f.stays || f.times < oftenRefused {
			continue
		}
		all = append(all, &report.Finding{Oracle: report.Vain, Reason: report.Refused, UpTo: f.line + 1, Text: fmt.Sprintf(
			"the server refuses a write again and again, without any fault: %s%s%s\n    %d times within %v%s",
			f.write, report.Answered, f.answer, f.times, f.last.Sub(f.first).Round(time.Second), onRecord)})
	}
	return all
}

// refusedAll says that every write was refused, with the latest answer; "" if
// one was not.
func (o *outcome) refusedAll() string {
	times, latest := 0, ""
	for _, f := range o.refused {
		times += f.times
		latest = f.answer
	}
	if times == 0 || times < o.asked {
		return ""
	}
	return fmt.Sprintf("; all of its %d writes were refused: %s", times, latest)
}
