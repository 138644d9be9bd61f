package status

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// probe answers 200, or 503 with the failed checks. A mild failure, such as a
// cluster that does not answer, is named but does not change the status.
// Otherwise a failure outside the program would make all replicas unready at
// once.
type probe struct {
	name string
	find func() []finding
}

// ServeHTTP answers with a line for each failure and, with ?verbose, a line for
// each other check.
func (p probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, verbose := r.URL.Query()["verbose"]
	status, result := http.StatusOK, "ok"
	var text strings.Builder
	for _, f := range p.find() {
		switch {
		case f.mild && f.err != nil:
			fmt.Fprintf(&text, "[!] %s: %s\n", plain(f.name), oneLine(f.err.Error()))
		case f.err != nil:
			status, result = http.StatusServiceUnavailable, p.name+" failed"
			fmt.Fprintf(&text, "[-] %s: %s\n", plain(f.name), oneLine(f.err.Error()))
		case verbose && f.note != "":
			fmt.Fprintf(&text, "[+] %s: ok, %s\n", plain(f.name), f.note)
		case verbose:
			fmt.Fprintf(&text, "[+] %s: ok\n", plain(f.name))
		}
	}
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s%s\n", text.String(), result) // the client may have disconnected
}

// oneLine returns a text on one line, so that an error cannot look like several
// checks. It leaves out values that the API server quotes from an object, since
// the error of a panic or of a program's check may contain them.
func oneLine(text string) string { return redact.Text(plain(text)) }

// plain returns a text as one line without control characters, because a
// terminal would obey them. A program chooses the names of its checks.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, strings.Join(strings.Fields(text), " "))
}

// counted returns a number and a noun. The noun is plural unless n is 1.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// header sets the headers of every answer.
func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// finding is the result of a check.
type finding struct {
	name string
	note string // the text to show if err is nil
	err  error
	mild bool // the process is ready in spite of err
}

// check calls a function that may hang. At most one call is in flight.
type check struct {
	name string
	ask  func() error
	note func() string // text to show after a success; may be nil

	mu   sync.Mutex // guards call
	call *call
}

// call is one call of a check.
type call struct {
	began time.Time
	done  chan struct{}
	err   error  // set before done is closed
	note  string // set before done is closed
}

// start returns the call that is in flight. If there is no such call, it makes
// one.
func (c *check) start() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil {
		asked := &call{began: time.Now(), done: make(chan struct{})}
		c.call = asked
		go c.answer(asked)
	}
	return c.call
}

// answer calls the function and stores its error. A panic and runtime.Goexit
// count as errors.
func (c *check) answer(asked *call) {
	defer close(asked.done)
	defer func() {
		if r := recover(); r != nil {
			asked.err = fmt.Errorf("panic: %v", r)
		}
		c.mu.Lock()
		c.call = nil
		c.mu.Unlock()
	}()
	asked.err = guard.ErrGoexit
	if asked.err = c.ask(); asked.err == nil && c.note != nil {
		asked.note = oneLine(c.note())
	}
}

// askAll runs all checks concurrently, and returns a finding for each. A check
// that takes longer than the time in the constant patience counts as failed.
func askAll(checks []*check) []finding {
	calls := make([]*call, len(checks))
	for i, c := range checks {
		calls[i] = c.start()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	expired := false // the timer fires once, for all checks together
	findings := make([]finding, len(checks))
	for i, asked := range calls {
		findings[i].name = checks[i].name
		if !expired {
			select {
			case <-asked.done:
			case <-timer.C:
				expired = true
			}
		}
		select {
		case <-asked.done:
			findings[i].err, findings[i].note = asked.err, asked.note
		default:
			findings[i].err = fmt.Errorf("the check has not returned for %v", time.Since(asked.began).Round(time.Millisecond))
		}
	}
	return findings
}

// checksOf returns the checks that call other code: one for each controller for
// which name does not return "", and the checks in additional. Informers,
// phases and sweeps need no call; see stateFindings.
func checksOf(
	controllers []*reconcile.Controller, name func(*reconcile.Controller) string, ask func(*reconcile.Controller) error,
	additional map[string]func() error,
) []*check {
	var checks []*check
	for _, c := range controllers {
		if name := name(c); name != "" {
			checks = append(checks, &check{name: name, ask: func() error { return ask(c) }})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(additional)) {
		checks = append(checks, &check{name: name, ask: additional[name]})
	}
	return checks
}

// withLeaders makes the checks of leaderships name the leader, even on a
// standby. A standby sees the holder of a Lease, but cannot know whether the
// holder works.
func withLeaders(checks []*check, controllers []*reconcile.Controller) []*check {
	for _, c := range controllers {
		if i := slices.IndexFunc(checks, func(k *check) bool { return k.name == leaderCheck(c) }); i >= 0 {
			checks[i].note = func() string { return c.Status(0).LeaderName }
		}
	}
	return checks
}

// controllerCheck returns the name of a controller's check.
func controllerCheck(c *reconcile.Controller) string { return parts.ControllerCheck(c.Name()) }

// leaderCheck returns the name of the check of a controller's leadership, or ""
// if it has no leader election.
func leaderCheck(c *reconcile.Controller) string {
	if !c.Status(0).Elects {
		return ""
	}
	return parts.LeaderCheck(c.Name())
}

// findingsOf returns all findings of /readyz: the results of stateFindings, the
// findings in checked, for which other code was called, and the problems.
func findingsOf(o *Options, v view, checked []finding) []finding {
	return withProblems(append(stateFindings(o, v), checked...), v.problems)
}

// stateFindings returns the findings for which no check has to be called: the
// states of informers and controllers, and the last sweeps.
func stateFindings(o *Options, v view) []finding {
	var findings []finding
	for _, i := range v.informers {
		f := finding{name: parts.InformerCheck(i.Name), note: counted(i.Objects, "object")}
		if !i.Synced && !i.Partly && !i.Optional {
			f.err, f.mild = fmt.Errorf("the informer has not synced: %s", i.Reason), o.ReadyWithoutCaches
		}
		findings = append(findings, f)
	}
	for _, c := range o.Controllers {
		phase := c.Phase()
		f := finding{name: controllerCheck(c), note: string(phase)}
		switch {
		case phase == inspect.Working, phase == inspect.Standby:
			f.err = c.Refused()
		case c.Status(0).Optional && (phase == inspect.Created || phase == inspect.Syncing): // reported as a problem
		default:
			f.err, f.mild = fmt.Errorf("the controller is %s", phase), o.ReadyWithoutCaches && phase == inspect.Syncing
		}
		findings = append(findings, f)
		if c.Sweep() != nil {
			findings = append(findings, finding{name: "sweep/" + c.Name()})
		}
	}
	return findings
}

// leaderReady returns the problem of a controller's leadership. With
// ReadyWithoutCaches, it returns nil for a controller that waits for its
// caches, because such a controller has not joined the election yet.
func (o *Options) leaderReady(c *reconcile.Controller) error {
	if o.ReadyWithoutCaches && c.Phase() == inspect.Syncing {
		return nil
	}
	return c.LeaderReady()
}

// withProblems adds problems to findings. The problems of a check follow the
// finding with the name of that check. They replace that finding if it has no
// error. Problems whose check has no finding are appended.
func withProblems(findings []finding, problems []inspect.Problem) []finding {
	byCheck := map[string][]finding{}
	for _, p := range problems {
		byCheck[p.Check] = append(byCheck[p.Check], finding{name: p.Check, err: errors.New(p.String()), mild: true})
	}
	var merged []finding
	for _, f := range findings {
		if f.err != nil || len(byCheck[f.name]) == 0 {
			merged = append(merged, f)
		}
		merged = append(merged, byCheck[f.name]...)
		delete(byCheck, f.name)
	}
	for _, p := range problems {
		merged = append(merged, byCheck[p.Check]...)
		delete(byCheck, p.Check)
	}
	return merged
}
