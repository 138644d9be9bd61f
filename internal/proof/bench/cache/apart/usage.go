package apart

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Heap collects all garbage, and returns the memory statistics after that.
func Heap() runtime.MemStats {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats
}

// CPUTime returns the processor time of this process on all cores.
func CPUTime() (time.Duration, error) {
	user, system, err := times()
	return user + system, err
}

// UserTime is [CPUTime] without the time in the kernel. Other programs of a
// shared machine disturb it less.
func UserTime() (time.Duration, error) {
	user, _, err := times()
	return user, err
}

func times() (user, system time.Duration, err error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, fmt.Errorf("reading the CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano()), nil
}

// PeakRSS returns the highest memory use of this process so far, in bytes.
func PeakRSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("reading the peak memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int64
			_, err := fmt.Sscanf(value, "%d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, errors.New("reading the peak memory: /proc/self/status has no VmHWM")
}
