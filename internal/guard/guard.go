// Package guard calls functions of a program. They may panic, or may end their
// goroutine (runtime.Goexit).
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrGoexit is the error of a function that ended its goroutine instead of
// returning.
var ErrGoexit = errors.New("runtime.Goexit was called, as t.FailNow does in tests: return an error instead")

// Call calls f in a goroutine of its own. The caller continues even if f panics
// or ends its goroutine. Call returns an error in either case.
func Call(f func()) (err error) {
	var running sync.WaitGroup
	running.Go(func() {
		err = ErrGoexit
		defer func() {
			if p := recover(); p != nil {
				err = Panicked(p)
			}
		}()
		f()
		err = nil
	})
	running.Wait()
	return err
}

// Panicked returns an error that describes a recovered panic. Its first line
// has the value, and the other lines have the stack of the goroutine.
func Panicked(value any) error { return fmt.Errorf("panic: %v\n%s", value, debug.Stack()) }
