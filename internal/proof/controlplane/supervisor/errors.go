package supervisor

import (
	"errors"
	"fmt"
)

// ErrStopped is the error of a request after the Supervisor has stopped.
var ErrStopped = errors.New("the control plane has stopped")

// ExitError is the error of a component that ended without a request.
type ExitError struct {
	// Component is the name of the component.
	Component string
	// Status describes how it ended, such as "exit status 1" or "signal:
	// killed".
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
