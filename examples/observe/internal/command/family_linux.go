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
	// maxRounds bounds the searches for members: a killed process may have started
	// another one meanwhile.
	maxRounds = 100
	// execTime is how long is waited, maxExecs times, for a process that is just
	// becoming another program: the kernel shows no environment until it has one.
	// One that was given an empty environment looks the same.
	execTime = time.Millisecond
	maxExecs = 100
	// environmentSize is how many bytes of an environment are read at once.
	environmentSize = 64 << 10
	// recent is how long ago a program may have begun for the ids of its family to
	// be those between its own and the kernel's last one. Meanwhile the kernel does
	// not come round to the first ids again.
	recent = 10 * time.Second
	// maxGuesses bounds how many ids are tried instead of listing all processes.
	maxGuesses = 1000
)

// inGroup gives a program a process group of its own, and an end with ours.
func inGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mark returns the variable by which the family is found.
func (f *family) mark() []string { return []string{f.id} }

// signal sends a signal to all members that are still there; SIGKILL, until there
// are none.
func (f *family) signal(signal syscall.Signal) {
	_ = syscall.Kill(-f.first, signal) // it may have ended
	round := func() (found, unsure bool) { return f.round(signal) }
	if signal == syscall.SIGKILL {
		untilNone(round)
	} else {
		round()
	}
}

// untilNone repeats round while it finds members or, for a while, may have missed one.
func untilNone(round func() (found, unsure bool)) {
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

// round sends a signal to the members outside of the group. Found means that there were
// some, unsure that there were processes that may be members.
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
	starting // it shows no environment yet
)

// signalMember signals a process if it is a member outside of the group, and returns
// its kinship.
func (f *family) signalMember(pid int, signal syscall.Signal) kinship {
	if is := f.kinship(pid); is != member {
		return is
	}
	process, err := os.FindProcess(pid) // from now on the id is not another process's
	if err != nil {
		return stranger
	}
	defer func() { _ = process.Release() }() // it is not our child
	group, err := syscall.Getpgid(pid)
	if err != nil || group == f.first {
		return stranger
	}
	if is := f.kinship(pid); is != member {
		return is
	}
	if process.Signal(signal) != nil {
		return stranger // it has ended
	}
	return member
}

// kinship looks for our mark in a process's environment.
func (f *family) kinship(pid int) kinship {
	file, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return stranger
	}
	defer file.Close() // it was only read
	// A process that becomes another program while it is read shows nothing more: the
	// first read takes as much as possible, and a cut-off environment has no end.
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

// Columns of /proc/PID/stat after the name, which may have anything in it.
const (
	stateColumn = 0
	flagsColumn = 6
	startColumn = 19
)

const (
	kernelThread = 0x00200000 // a flag of kernel threads
	ticks        = 100        // of a second, in /proc
)

// ended are the states of processes that have ended.
var ended = []string{"Z", "X"}

// isStarting reports whether a process without a whole environment began after the
// family, has not ended, and is not the kernel's.
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
	start, _ := strconv.ParseFloat(columns[startColumn], 64)    // likewise
	return flags&kernelThread == 0 && start/ticks >= uptime()-time.Since(f.begun).Seconds()-2./ticks
}

// uptime returns the seconds since the machine has started, 0 if the kernel does
// not say.
func uptime() float64 {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	seconds, _, _ := strings.Cut(string(text), " ")
	value, _ := strconv.ParseFloat(seconds, 64) // 0, as above
	return value
}

// candidates returns the ids of processes among which the members are.
func (f *family) candidates() (pids []int) {
	if last := lastID(); last >= f.first && last-f.first < maxGuesses && time.Since(f.begun) < recent {
		for pid := f.first + 1; pid <= last; pid++ {
			pids = append(pids, pid)
		}
		return pids
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()                  // it was only read
	entries, _ := folder.Readdirnames(-1) // an incomplete list cannot be helped
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lastID is the id that the kernel gave out last, 0 if it does not say.
func lastID() int {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	columns := strings.Fields(string(text))
	last, _ := strconv.Atoi(columns[len(columns)-1]) // 0, as above
	return last
}
