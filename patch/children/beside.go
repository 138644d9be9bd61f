package children

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/patch"
)

// callAll calls call for 0 to n-1, at most parallel calls at a time, and
// returns the error of each call, in the order of the numbers. It begins no
// further call once ctx has ended. complete is true if all calls were made.
//
// If a call panics, callAll panics after all other calls. If a call ends its
// goroutine, callAll ends its own, after the calls in other goroutines. In a
// simulation the calls are made one after the other, because a run must be
// repeatable.
func callAll(ctx context.Context, n, parallel int, call func(i int) error) (errs []error, complete bool) {
	if simhook.Current() != nil {
		parallel = 1
	}
	errs = make([]error, n)
	var next, done, returned atomic.Int64
	var running sync.WaitGroup
	var failed atomic.Pointer[string]
	callOne := func(i int) {
		defer func() {
			if r := recover(); r != nil {
				text := fmt.Sprintf("%v\n%s", r, debug.Stack())
				failed.CompareAndSwap(nil, &text)
			}
		}()
		errs[i] = call(i)
		done.Add(1)
	}
	work := func() {
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			callOne(i)
		}
		returned.Add(1)
	}
	workers := max(1, min(n, parallel))
	if workers == 1 {
		work()
	} else {
		for range workers {
			running.Go(work)
		}
		running.Wait()
	}
	if text := failed.Load(); text != nil {
		panic(*text)
	}
	if int(returned.Load()) < workers {
		runtime.Goexit()
	}
	return errs, int(done.Load()) == n
}

const (
	shownErrors = 10   // the number of errors that are shown
	shownBytes  = 1000 // the number of bytes of each error that are shown
)

// failures are the errors of many children. errors.Is and errors.As find all of
// them. The text has only the first ones, because it is written to logs, Events
// and conditions.
type failures []error

func (f failures) Error() string {
	var text strings.Builder
	for i, err := range f[:min(len(f), shownErrors)] {
		if i > 0 {
			text.WriteString("\n")
		}
		shown := err.Error()
		if len(shown) > shownBytes {
			shown = strings.ToValidUTF8(shown[:shownBytes], "") + "…"
		}
		text.WriteString(shown)
	}
	if hidden := len(f) - shownErrors; hidden > 0 {
		fmt.Fprintf(&text, "\nand %d more errors", hidden)
	}
	return text.String()
}

func (f failures) Unwrap() []error { return f }

// sumErrors returns one error for all errs. If only some of them are refusals
// of stale objects, it leaves these out, because the next reconcile resolves
// them.
func sumErrors(errs ...error) error {
	var stale, failed failures
	for _, err := range errs {
		list, ok := err.(failures) //nolint:errorlint // itself, not what it wraps
		if !ok && err != nil {
			list = failures{err}
		}
		if patch.IsStale(err) {
			stale = append(stale, list...)
		} else {
			failed = append(failed, list...)
		}
	}
	switch {
	case failed != nil:
		return failed
	case stale != nil:
		return stale
	}
	return nil
}

// stopError returns the error of a call whose context ended too early. state
// completes the text "stopping before all children are", for example with
// "deleted".
func stopError(ctx context.Context, state string) error {
	return fmt.Errorf("stopping before all children are %s: %w", state, ctx.Err())
}
