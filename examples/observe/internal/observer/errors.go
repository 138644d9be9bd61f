package observer

import "errors"

// These are the reasons for which an [Observer] stops by itself.
var (
	// ErrTooManyErrors says that the allowed number of commands has failed.
	ErrTooManyErrors = errors.New("reached maximum error limit")
	// ErrKeysFailed says that the observer ran once, and that commands have
	// failed.
	ErrKeysFailed = errors.New("some objects failed")
	// ErrNamesFailed says that the observer ran once, and that the known names
	// could not be swept.
	ErrNamesFailed = errors.New("the known names could not be swept")
)
