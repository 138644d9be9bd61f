package queue

import "errors"

// ErrStopped is what Get returns when no key will come any more: after Stop,
// and after Drain once the last waiting key has been handed out.
var ErrStopped = errors.New("the queue has stopped")
