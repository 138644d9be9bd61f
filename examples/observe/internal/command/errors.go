package command

import (
	"errors"
	"fmt"
	"time"
)

// ErrTooLarge says that an argument or a variable is larger than the kernel
// accepts. Running the program again does not help.
var ErrTooLarge = errors.New("larger than the kernel takes")

// An ExitError says that a program ended with a code other than 0.
type ExitError struct {
	Program string
	Code    int
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("command %q exited with status code %d", e.Program, e.Code)
}

// A TimeoutError says that a program was ended because it took too long.
type TimeoutError struct {
	Program string
	Timeout time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("command %q was ended after its timeout of %v", e.Program, e.Timeout)
}
