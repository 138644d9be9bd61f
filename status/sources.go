package status

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// source is a function of the options that returns problems or informers. At
// most one call of it is in flight.
type source[T any] struct {
	field string // of the options
	list  func() []T

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
// probe would fail, and a scrape, which Prometheus makes in goroutines of its
// own, would end the process.
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

// get returns the result of a call, or an error if the call fails or hangs. It
// waits until the call has taken as long as a probe waits for its checks.
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

// problems returns the problem that get returns an error, or nothing.
func (s *source[T]) problems() []inspect.Problem {
	if _, err := s.get(); err != nil {
		return []inspect.Problem{sourceFails(s.field, err)}
	}
	return nil
}

// guardSources makes sure that the functions of the options return in time.
// Problems then also says which of them fail or hang.
func (o *Options) guardSources() {
	problems := &source[inspect.Problem]{field: "Problems", list: o.Problems}
	informers := &source[informer.Status]{field: "Informers", list: o.Informers}
	o.Problems = func() []inspect.Problem {
		found, err := problems.get()
		if err != nil {
			found = []inspect.Problem{sourceFails(problems.field, err)}
		}
		return slices.Concat(informers.problems(), found)
	}
	o.Informers = func() []informer.Status {
		found, _ := informers.get() // Problems names the error
		return found
	}
}

// sourceFails returns the problem that a function of the options fails.
func sourceFails(field string, err error) inspect.Problem {
	return inspect.Problem{
		Check: "status.Options." + field, Cause: "source fails", Reason: redact.Error(err),
		Remedy: "it is a fault of the program",
	}
}

// further returns the informers that no controller uses.
func (o *Options) further() (informers []inspect.InformerStatus) {
	for _, i := range o.Informers() {
		informers = append(informers, inspect.InformerStatus{Status: i, Controllers: []string{}})
	}
	return informers
}

// informers returns the state of the controllers' informers and of the further
// ones.
func (o *Options) informers() []inspect.InformerStatus {
	return append(inspect.Informers(o.Controllers...), o.further()...)
}

// problems returns the problems of the controllers, of further informers and of
// the program.
func (o *Options) problems() []inspect.Problem {
	problems := inspect.Problems(o.Controllers...)
	for _, i := range o.further() {
		for _, p := range i.Problems {
			p.Check = cmp.Or(p.Check, "informer/"+i.Name)
			problems = append(problems, p)
		}
	}
	return append(problems, o.Problems()...)
}
