package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxRounds and maxExecs together limit how often members are searched for.
	// A search that has found a member is repeated, because a process may start
	// a new process before it is killed.
	maxRounds = 100
	// execTime is how long to wait, up to maxExecs times, for a process that is
	// just starting another program. Until that program runs, the kernel shows
	// no environment, so the process looks like one with an empty environment.
	execTime = time.Millisecond
	maxExecs = 100
	// environmentSize is how many bytes of an environment are read at once.
	environmentSize = 64 << 10
	// maxAge is the age of a program up to which the ids of its family are
	// known to lie between the program's own id and the kernel's newest id.
	// In such a short time the ids do not wrap around.
	maxAge = 10 * time.Second
	// maxGuesses is the largest number of ids to try one by one. If there are
	// more, it is cheaper to list all processes.
	maxGuesses = 1000
)

// inGroup gives a program its own process group, and lets the kernel end it
// together with this process.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mark returns the variable that identifies the family.
func (f *family) mark() []string { return []string{f.id} }

// signal sends a signal to all living members. It repeats SIGKILL until it
// finds no more members, up to the limits maxRounds and maxExecs.
func (f *family) signal(signal syscall.Signal) {
	_ = syscall.Kill(-f.pid, signal) // the group may have ended
	round := func() (found, unsure bool) { return f.round(signal) }
	if signal == syscall.SIGKILL {
		repeatRounds(round)
	} else {
		round()
	}
}

// repeatRounds calls round again while round finds members. If round finds no
// member but may have missed one, repeatRounds waits for execTime and calls
// round again, at most maxExecs times.
func repeatRounds(round func() (found, unsure bool)) {
	execs := 0
	for range maxRounds + maxExecs {
		found, unsure := round()
		if !found && (!unsure || execs == maxExecs) {
			return
		}
		if !found {
			execs++
			<-time.After(execTime)
		}
	}
}

// round sends a signal to the members outside of the group. found is true if it
// has signalled a member. unsure is true if it is not known yet whether some
// process is a member.
func (f *family) round(signal syscall.Signal) (found, unsure bool) {
	for _, pid := range f.candidates() {
		switch f.signalMember(pid, signal) {
		case member:
			found = true
		case starting:
			unsure = true
		case stranger:
		}
	}
	return found, unsure
}

// kinship is the relation of a process to a family.
type kinship int

const (
	stranger kinship = iota
	member
	starting // a process whose environment cannot be read yet
)

// signalMember signals a process if it is a member outside of the group, and
// returns its kinship. For a member in the group, and for a process that has
// ended, it returns stranger.
func (f *family) signalMember(pid int, signal syscall.Signal) kinship {
	if kin := f.kinship(pid); kin != member {
		return kin
	}
	process, err := os.FindProcess(pid) // from now on the id cannot be reused
	if err != nil {
		return stranger
	}
	defer func() { _ = process.Release() }() // the process is not our child, so it cannot be waited for
	group, err := syscall.Getpgid(pid)
	if err != nil || group == f.pid {
		return stranger
	}
	if kin := f.kinship(pid); kin != member {
		return kin
	}
	if process.Signal(signal) != nil {
		return stranger // the process has ended
	}
	return member
}

// kinship returns how a process is related to the family. It looks for the
// family's mark in the environment of the process.
func (f *family) kinship(pid int) kinship {
	file, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return stranger
	}
	defer file.Close() // it was only read
	// If the process starts another program while its environment is read,
	// later reads return no data. So the first read takes as much as possible.
	// An environment that was cut off does not end with a NUL.
	environment := make([]byte, 0, environmentSize)
	for {
		n, err := file.Read(environment[len(environment):cap(environment)])
		environment = environment[:len(environment)+n]
		if err != nil || n == 0 {
			break
		}
		environment = slices.Grow(environment, 1)
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if rest, ok := bytes.CutPrefix(variable, []byte(f.id)); ok && (len(rest) == 0 || rest[0] == '/') {
			return member
		}
	}
	if !bytes.HasSuffix(environment, []byte{0}) && f.isStarting(pid) {
		return starting
	}
	return stranger
}

// These are columns of /proc/PID/stat after the name, which may contain any
// characters.
const (
	stateColumn = 0
	flagsColumn = 6
	startColumn = 19
)

const (
	kernelThread = 0x00200000 // the flag of kernel threads
	ticks        = 100        // the number of clock ticks per second in /proc
)

// ended lists the states of processes that have ended.
var ended = []string{"Z", "X"}

// isStarting is called for a process whose whole environment could not be read.
// It reports whether the process was started after the family, has not ended,
// and does not belong to the kernel.
func (f *family) isStarting(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	columns := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(columns) <= startColumn || slices.Contains(ended, columns[stateColumn]) {
		return false
	}
	flags, _ := strconv.ParseUint(columns[flagsColumn], 10, 64) // the kernel has written a number
	start, _ := strconv.ParseFloat(columns[startColumn], 64)    // the kernel has written a number
	return flags&kernelThread == 0 && start/ticks >= uptime()-time.Since(f.begun).Seconds()-2./ticks
}

// uptime returns how many seconds ago the machine booted, or 0 if that is not
// known.
func uptime() float64 {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	seconds, _, _ := strings.Cut(string(text), " ")
	value, _ := strconv.ParseFloat(seconds, 64) // 0 if the file could not be read
	return value
}

// candidates returns the ids of all processes that may be members of the
// family.
func (f *family) candidates() (pids []int) {
	if newest := lastID(); newest >= f.pid && newest-f.pid < maxGuesses && time.Since(f.begun) < maxAge {
		for pid := f.pid + 1; pid <= newest; pid++ {
			pids = append(pids, pid)
		}
		return pids
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()                  // it was only read
	entries, _ := folder.Readdirnames(-1) // after an error, the list is incomplete
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lastID returns the id of the newest process, or 0 if it is not known.
func lastID() int {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	columns := strings.Fields(string(text))
	id, _ := strconv.Atoi(columns[len(columns)-1]) // 0 if the file could not be read
	return id
}
