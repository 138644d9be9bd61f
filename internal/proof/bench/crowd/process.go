package crowd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const tick = 10 * time.Millisecond // the unit of processor time in /proc

// Process is the id of a process of this machine.
type Process int

// Resident returns the resident memory, in MiB.
func (p Process) Resident() (float64, error) { return p.memory("VmRSS") }

// Peak returns the highest resident memory since the start, in MiB.
func (p Process) Peak() (float64, error) { return p.memory("VmHWM") }

func (p Process) memory(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), field+":")
	if !found {
		return 0, fmt.Errorf("reading the memory of process %d: the process has ended", p)
	}
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kib / 1024, err
}

// Processor returns the processor time that the process has used so far, user
// and system time together.
func (p Process) Processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, err
}
