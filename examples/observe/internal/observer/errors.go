package observer

import "errors"

// These are the reasons for which an [Observer] stops by itself.
var (
	// ErrTooManyErrors means that Options.MaxErrors runs have failed.
	ErrTooManyErrors = errors.New("reached maximum error limit")
	// ErrKeysFailed means that the observer ran with Options.Once, and that it
	// failed for at least one object. For example, a command failed, or no
	// arguments could be made for the object.
	ErrKeysFailed = errors.New("some objects failed")
	// ErrNamesFailed means that the observer ran with Options.Once, and that it
	// could not compare the known names with the objects.
	ErrNamesFailed = errors.New("the known names could not be compared with the objects")
)
