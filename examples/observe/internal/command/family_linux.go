package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxRounds bounds how often a family is looked for: what is killed may have
	// started another process meanwhile.
	maxRounds = 100
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
	for range maxRounds {
		found := false
		for _, pid := range f.candidates() {
			found = f.signalMember(pid, signal) || found
		}
		if !found || signal != syscall.SIGKILL {
			return
		}
	}
}

// signalMember signals a process if it is a member outside of the group, and
// reports whether it is.
func (f *family) signalMember(pid int, signal syscall.Signal) bool {
	if !f.has(pid) {
		return false
	}
	process, err := os.FindProcess(pid) // from now on the id is not another process's
	if err != nil {
		return false
	}
	defer func() { _ = process.Release() }() // it is not our child
	if group, err := syscall.Getpgid(pid); err != nil || group == f.first || !f.has(pid) {
		return false
	}
	return process.Signal(signal) == nil
}

// has reports whether a process has our mark in its environment. One that has
// ended has none.
func (f *family) has(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if rest, ok := bytes.CutPrefix(variable, []byte(f.id)); ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
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
	entries, _ := folder.Readdirnames(-1) // what is missing cannot be helped
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
