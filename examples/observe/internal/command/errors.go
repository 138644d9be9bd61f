package command

import (
	"errors"
	"fmt"
	"time"
)

// ErrTooLarge means that a program was not started, because an argument or
// variable is longer than [MaxString], or because the kernel refused all
// arguments and variables together as too large. A retry of the same call does
// not help.
var ErrTooLarge = errors.New("larger than the kernel accepts")

// An ExitError is the error of a program that ended with an exit code other
// than 0.
type ExitError struct {
	Program string
	Code    int
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("command %q exited with status code %d", e.Program, e.Code)
}

// A TimeoutError is the error of a program that was ended because it took too
// long.
type TimeoutError struct {
	Program string
	Timeout time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("command %q was ended after its timeout of %v", e.Program, e.Timeout)
}
