package informer

import (
	"fmt"
	"time"
)

// Problem is something that one member of a program cannot do, although the others go
// on: an object that cannot be decoded, a namespace that was deleted, a watch that is
// refused. The process stays ready; /readyz and the status page name the problem, and
// the metric homeostat_problems counts it by its cause, for an alert.
//
// A source of problems computes them from its state whenever it is asked, so that a
// problem heals by itself: an informer returns them in Status.Problems, a controller
// in its Problems, and a program adds others with status.Options.Problems. They are
// read by every probe and scrape, so a source must not wait or send requests.
type Problem struct {
	// Check is the line of /readyz, such as "informer/pods" or "cluster/west". The
	// informers and controllers of a program need not set it.
	Check string
	// Object is what is affected, such as `default/a` or `namespace "b"`. It is empty
	// if everything behind the check is.
	Object string
	// Cause is a word or two that are the same each time, such as "Unauthorized" or
	// "not decodable". It is a label of the metric, so it holds no names.
	Cause string
	// Reason is the error, without contents of objects. It may say more than Cause.
	Reason string
	// Remedy is what a person can do, such as "mend or delete the object". It is empty
	// if there is nothing to do but to wait.
	Remedy string
	// Since is when it began; zero if that is not known.
	Since time.Time
	// More is the number of further objects with the same cause. A source lists at
	// most ten of them, and counts the others here, in the last.
	More int
}

// String returns what /readyz says, without the name of the check.
func (p Problem) String() string {
	text := p.Reason
	if text == "" {
		text = p.Cause
	}
	if p.Object != "" {
		text = p.Object + ": " + text
	}
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	if p.More > 0 {
		text += fmt.Sprintf(" (and %d more)", p.More)
	}
	return text
}
