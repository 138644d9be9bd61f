//go:build unix

package reconciletest

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that the process has used so far,
// user and system time together.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
