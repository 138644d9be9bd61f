package supervisor

import (
	"errors"
	"fmt"
)

// ErrStopped is the answer to a request when the Supervisor no longer runs.
var ErrStopped = errors.New("the control plane has stopped")

// ExitError says that a component ended without being asked to.
type ExitError struct {
	// Component is its name.
	Component string
	// Status is how it ended, such as "exit status 1" or "signal: killed".
	Status string
	// Log is the file with its output. It is deleted with a temporary data
	// directory.
	Log string
	// Tail is the end of that file.
	Tail string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended (%s); the end of its log:\n%s", e.Component, e.Status, e.Tail)
}
