//go:build !unix

package reconciletest

import "time"

// processorTime returns 0, because systems other than Unix have no common call
// that reports the processor time of a process.
func processorTime() time.Duration { return 0 }
