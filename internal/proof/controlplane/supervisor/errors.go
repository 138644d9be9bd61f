package supervisor

import (
	"errors"
	"fmt"
)

// ErrStopped is returned for a request after the Supervisor has stopped.
var ErrStopped = errors.New("the control plane has stopped")

// ExitError is the error of a component that ended although the Supervisor had
// not ended it.
type ExitError struct {
	// Component is the name of the component.
	Component string
	// Status describes how the component ended, such as "exit status 1" or
	// "signal: killed".
	Status string
	// Log is the path of the file with the component's output. The file is
	// deleted together with a temporary data directory.
	Log string
	// Tail is the end of the component's output.
	Tail string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended (%s); the end of its log:\n%s", e.Component, e.Status, e.Tail)
}
