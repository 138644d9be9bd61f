package status

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// source is a function of the options that returns problems or informers. At
// most one call of it is in flight.
type source[T any] struct {
	list func() []T // nil if the option is not set

	mu   sync.Mutex // guards call
	call *sourceCall[T]
}

// sourceCall is one call of a source.
type sourceCall[T any] struct {
	began time.Time
	done  chan struct{}
	// result and err are set before done is closed.
	result []T
	err    error
}

// start returns the call that is in flight. If there is no such call, it makes
// one. A panic or runtime.Goexit costs only the result. Otherwise the whole
// probe would fail, and a scrape would end the process, because Prometheus
// calls collectors in goroutines of its own.
func (s *source[T]) start() *sourceCall[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != nil {
		return s.call
	}
	c := &sourceCall[T]{began: time.Now(), done: make(chan struct{})}
	s.call = c
	go func() {
		defer close(c.done)
		c.err = guard.Call(func() { c.result = s.list() })
		s.mu.Lock()
		s.call = nil
		s.mu.Unlock()
	}()
	return c
}

// get returns the result of a call, or an error if the call fails or hangs. A
// call hangs if it takes longer than the time in the constant patience. get
// counts that time from the start of the call, even if an earlier get has
// started it.
func (s *source[T]) get() ([]T, error) {
	if s.list == nil {
		return nil, nil
	}
	c := s.start()
	select {
	case <-c.done:
	case <-time.After(time.Until(c.began.Add(patience))):
	}
	select {
	case <-c.done:
		return c.result, c.err
	default:
		return nil, fmt.Errorf("no answer for %v", time.Since(c.began).Round(time.Millisecond))
	}
}

// sources are the options, with the functions Problems and Informers as
// sources. Each function is called at most once for each answer.
type sources struct {
	Options

	problems  source[inspect.Problem]
	informers source[informer.Status]
}

// view is what one answer shows of informers and problems.
type view struct {
	informers []inspect.InformerStatus
	problems  []inspect.Problem
}

// look returns the state of the controllers' informers and of
// Options.Informers, and the problems of the controllers, of Options.Informers
// and of the program.
func (s *sources) look() view {
	added, err := s.informers.get()
	v := view{inspect.Informers(s.Controllers...), inspect.Problems(s.Controllers...)}
	for _, i := range added {
		v.informers = append(v.informers, inspect.InformerStatus{Status: i, Controllers: []string{}})
	}
	v.problems = append(v.problems, problemsOf(added)...)
	v.problems = append(v.problems, s.programProblems(err)...)
	return v
}

// problemsOf returns the problems of informers, each with its check.
func problemsOf(informers []informer.Status) (problems []inspect.Problem) {
	for _, i := range informers {
		for _, p := range i.Problems {
			p.Check = cmp.Or(p.Check, parts.InformerCheck(i.Name))
			problems = append(problems, p)
		}
	}
	return problems
}

// counted returns the problems that homeostat_problems counts in addition to
// the problems of the controllers: the problems of Options.Informers and of the
// program. It leaves out the problems of informers whose check and cause the
// controllers have, too, because a metric can be sent only once. The program
// must not use the checks of the controllers.
func (s *sources) counted() []inspect.Problem {
	added, err := s.informers.get()
	controllers := inspect.Problems(s.Controllers...)
	problems := slices.DeleteFunc(problemsOf(added), func(p inspect.Problem) bool {
		return slices.ContainsFunc(controllers, func(c inspect.Problem) bool {
			return c.Check == p.Check && c.Cause == p.Cause
		})
	})
	return append(problems, s.programProblems(err)...)
}

// credentials returns a finding of /livez for each of Options.Informers. If the
// function fails or hangs, there are no findings: a restart is not known to
// help.
func (s *sources) credentials() (findings []finding) {
	added, _ := s.informers.get() // /readyz names the error
	for _, i := range added {
		ended := parts.CredentialsEnded(i.Name, i.UnauthorizedSince)
		findings = append(findings, finding{name: parts.InformerCheck(i.Name), err: ended})
	}
	return findings
}

// programProblems returns the problems of the program. If a function in the
// options fails or hangs, that is a problem, too. err is the error of
// Options.Informers, or nil.
func (s *sources) programProblems(err error) (problems []inspect.Problem) {
	if err != nil {
		problems = append(problems, sourceFails("Informers", err))
	}
	found, err := s.problems.get()
	if err != nil {
		found = []inspect.Problem{sourceFails("Problems", err)}
	}
	return append(problems, found...)
}

// sourceFails returns the problem to report when a function in Options has
// failed with err. field is the function's name.
func sourceFails(field string, err error) inspect.Problem {
	return inspect.Problem{
		Check: "status.Options." + field, Cause: "source fails", Reason: redact.Error(err),
		Remedy: "fix the program: this is a bug in it",
	}
}
