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

// answers records the answers that the server itself gives to the program; an
// answer of an injected fault is not recorded. It adds refusals to the trace,
// and finds a write that the server refuses again and again.
//
// Its methods run in the goroutine that made the call, one at a time, while the
// run waits: no lock is needed.
type answers struct {
	*core
	line    int  // the trace line of the call that is being served, or -1 if the call is not in the trace
	staying bool // whether the program has to stay at rest
}

// refusal is a write that the server has refused, with the latest answer of the
// server.
type refusal struct {
	write, answer string
	first, last   time.Time
	times         int
	line          int  // the trace line of the latest refusal
	done          bool // whether a later attempt of the write has succeeded
	// stays reports whether the write was refused while the program had to stay
	// at rest, or shortly before the end of the run.
	stays bool
	lost  bool // whether it is an Event, which recorders drop when it is refused
}

// oftenRefused is how many refusals of the same write are needed for a finding.
const oftenRefused = 3

// maxMessage is the maximum number of characters of a message in the trace.
const maxMessage = 120

// record records the answer to a call.
func (r *answers) record(c apisim.Call, a apisim.Answer) {
	if !isProgram(c.Client) {
		return
	}
	if state.Ignored(c.Resource.GroupResource()) {
		r.noteLost(c, a)
		return
	}
	text := textOf(a)
	streams := c.Verb == "watch" && a.Code == http.StatusUnprocessableEntity // client-go then lists instead
	if r.line >= 0 && r.line < len(r.out.lines) && a.Code >= http.StatusBadRequest && !streams {
		r.out.lines[r.line] += report.Answered + text
	}
	if !c.Write() {
		return
	}
	r.out.asked++
	if isFinal(c, a) {
		r.note(c, text)
	} else if a.Code < http.StatusBadRequest {
		r.markDone(c)
	}
}

// textOf returns the text of an answer for the trace: the status code and the
// beginning of the message. A 404 has only the code, and a 409 has the reason
// in place of the message.
func textOf(a apisim.Answer) string {
	message := a.Message
	switch a.Code {
	case http.StatusNotFound:
		message = ""
	case http.StatusConflict:
		message = string(a.Reason)
	}
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage]) + "…"
	}
	return strings.TrimSpace(fmt.Sprint(a.Code, " ", strings.ReplaceAll(message, "\n", " ")))
}

// isFinal reports whether the server would give the same refusal to a retry of
// the same write. For example, 422 for an invalid object is final. Two kinds of
// answers are not: answers that show that an earlier attempt of the create or
// delete has succeeded, and answers that ask for a retry, such as 429 and 5xx.
func isFinal(c apisim.Call, a apisim.Answer) bool {
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

// writeOf returns a text that identifies a write by its verb and its object,
// for comparison with other writes.
func writeOf(c apisim.Call) string {
	resource := c.Resource.GroupResource().String()
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return c.Verb + " " + resource + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
}

func (r *answers) note(c apisim.Call, answer string) {
	write := writeOf(c)
	i := slices.IndexFunc(r.out.refused, func(f *refusal) bool { return f.write == write && !f.done })
	if i < 0 {
		i = len(r.out.refused)
		r.out.refused = append(r.out.refused, &refusal{write: write, first: time.Now()})
	}
	f := r.out.refused[i]
	f.answer, f.last, f.line = answer, time.Now(), r.line
	f.times++
	f.stays = f.stays || r.staying
}

// noteLost records an Event that the server has refused because of its content.
// For example, its note has more than 1,024 bytes. One refusal is enough for a
// finding: client-go's recorders drop such an Event without an error.
func (r *answers) noteLost(c apisim.Call, a apisim.Answer) {
	if c.Resource.Resource != "events" || a.Code != http.StatusUnprocessableEntity {
		return
	}
	r.out.refused = append(r.out.refused, &refusal{
		write: c.Verb + " " + c.Resource.GroupResource().String() + " in " + c.Namespace, answer: textOf(a), lost: true,
	})
}

// markDone marks the refusals of a write as done, because the server has
// accepted the write.
func (r *answers) markDone(c apisim.Call) {
	write := writeOf(c)
	for _, f := range r.out.refused {
		f.done = f.done || f.write == write
	}
}

// recordFinal records which writes the server still refuses at the end of a
// run, after the fault of the run has ended.
func (r *answers) recordFinal() {
	for _, f := range r.out.refused {
		f.stays = f.stays || !f.done && time.Since(f.last) < r.o.Rest/2
	}
}

// refusals returns a finding for each write that the program repeats and the
// server refuses until the end of the run, and for each Event that the server
// refuses. condition says why no fault explains the refusals of a write, for
// example "without any fault". It becomes a part of the finding's text.
func (o *outcome) refusals(condition string) []*report.Finding {
	var findings []*report.Finding
	for _, f := range o.refused {
		if f.lost {
			findings = append(findings, &report.Finding{
				Oracle: report.Vain, Reason: report.EventRefused,
				Text: "the server refuses an Event, so the Event is lost: " + f.write + report.Answered + f.answer,
			})
			continue
		}
		if f.done || !f.stays || f.times < oftenRefused {
			continue
		}
		findings = append(findings, &report.Finding{
			Oracle: report.Vain, Reason: report.Refused, UpTo: f.line + 1,
			Text: fmt.Sprintf("the server refuses a write again and again, %s: %s%s%s\n    %d times within %v%s",
				condition, f.write, report.Answered, f.answer, f.times, f.last.Sub(f.first).Round(time.Second), onRecord),
		})
	}
	return findings
}

// refusedAll returns a text with the latest answer if the server has refused
// every write. Otherwise it returns "".
func (o *outcome) refusedAll() string {
	times, latest := 0, ""
	for _, f := range o.refused {
		if !f.lost {
			times += f.times
			latest = f.answer
		}
	}
	if times == 0 || times < o.asked {
		return ""
	}
	return fmt.Sprintf("; all of its %d writes were refused: %s", times, latest)
}
