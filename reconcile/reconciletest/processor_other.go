//go:build !unix

package reconciletest

import "time"

// processorTime returns 0, because only Unix reports the processor time of a
// process in the same way everywhere.
func processorTime() time.Duration { return 0 }
