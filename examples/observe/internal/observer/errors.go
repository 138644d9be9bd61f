package observer

import "errors"

// Why an [Observer] stops by itself.
var (
	// ErrTooManyErrors says that commands have failed as often as is allowed.
	ErrTooManyErrors = errors.New("reached maximum error limit")
	// ErrKeysFailed says that it was to run once, and that commands have failed.
	ErrKeysFailed = errors.New("some objects failed")
	// ErrNamesFailed says that it was to run once, and that the known names could
	// not be swept.
	ErrNamesFailed = errors.New("the known names could not be swept")
)
