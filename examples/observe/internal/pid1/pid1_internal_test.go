//go:build linux

package pid1

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// patience bounds waits for real processes.
const patience = time.Minute

// The test binary is also the first process, and the program that this starts;
// a role tells them apart.
const (
	role    = "PID1_TEST_ROLE"
	program = "PID1_TEST_PROGRAM" // the role of the program
)

// subreaper makes a process the one that inherits orphans below it, as the
// first of a PID namespace is (PR_SET_CHILD_SUBREAPER).
const subreaper = 36

func TestMain(m *testing.M) {
	code := 0
	switch r := os.Getenv(role); r {
	case "":
		code = m.Run()
	case "first":
		code = beFirst()
	case "second": // not the first of its namespace
		_ = os.Setenv(role, "exit") // of a name without NUL
		says(Main())
	default:
		code = play(r)
	}
	os.Exit(code) //nolint:forbidigo // this is its main
}

// beFirst is the first process.
func beFirst() (code int) {
	_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0)
	_ = os.Setenv(role, os.Getenv(program)) // of a name without NUL
	code, err := run(os.Executable)
	if failed != 0 || err != nil {
		says(failed, err)
		return 99
	}
	return code
}

// play is a program of that role.
func play(r string) (code int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	switch r {
	case "exit":
		return 7
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it is ours
	case "orphans": // three, which end when their parent has
		_ = exec.Command("sh", "-c", "for i in 1 2 3; do (sleep 0.1; exit 5) & done").Run() //nolint:noctx // it ends at once
	}
	says("group of its own:", syscall.Getpgrp() == os.Getpid())
	if <-signals == syscall.SIGTERM {
		return 3
	}
	return 4
}

func says(words ...any) { _, _ = fmt.Fprintln(os.Stdout, words...) }

// first starts the first process, and waits until its program says that it
// runs.
func first(t *testing.T, r string) (c *exec.Cmd, says string) {
	t.Helper()
	c = exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), role+"=first", program+"="+r)
	out, err := c.StdoutPipe()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(c.Start()).To(Succeed())
	line, _ := bufio.NewReader(out).ReadString('\n') // a program that has ended says nothing
	return c, line
}

// code waits for a process, and returns its exit code.
func code(c *exec.Cmd) int {
	_ = c.Wait() // the code says more
	return c.ProcessState.ExitCode()
}

func TestTheFirstProcessEndsAsTheProgramDoes(t *testing.T) {
	g := NewWithT(t)
	c, _ := first(t, "exit")
	g.Expect(code(c)).To(Equal(7))
	c, _ = first(t, "killed")
	g.Expect(code(c)).To(Equal(128+9), "as shells have it")
}

func TestSignalsArePassedOn(t *testing.T) {
	g := NewWithT(t)
	for s, want := range map[syscall.Signal]int{syscall.SIGTERM: 3, syscall.SIGHUP: 4} {
		c, says := first(t, "waits")
		g.Expect(says).To(Equal("group of its own: true\n"))
		g.Expect(c.Process.Signal(s)).To(Succeed())
		g.Expect(code(c)).To(Equal(want))
	}
}

func TestOrphansAreWaitedFor(t *testing.T) {
	g := NewWithT(t)
	c, _ := first(t, "orphans")
	children := func() []string {
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid))
		g.Expect(err).NotTo(HaveOccurred())
		var ids []string
		for _, file := range all {
			text, _ := os.ReadFile(file) // of a thread that may have ended
			ids = append(ids, strings.Fields(string(text))...)
		}
		return ids
	}
	g.Eventually(children, patience).Should(HaveLen(1), "the program alone")
	g.Expect(c.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Expect(code(c)).To(Equal(3), "and not as an orphan")
}

func TestAnyOtherProcessIsTheProgramItself(t *testing.T) {
	g := NewWithT(t)
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), role+"=second")
	out, err := c.Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("0 false <nil>\n"))
}

func TestOnlyTheFirstProcessRunsTheProgram(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("broken")
	ran := func() (int, error) { return 3, broken }
	code, first, err := runAs(1, ran)
	g.Expect([]any{code, first, err}).To(Equal([]any{3, true, broken}))
	for _, pid := range []int{0, 2} {
		code, first, err = runAs(pid, ran)
		g.Expect([]any{code, first, err}).To(Equal([]any{0, false, nil}))
	}
}

func TestAProgramThatIsNotFoundIsAnError(t *testing.T) {
	g := NewWithT(t)
	code, err := run(func() (string, error) { return "", errors.New("no /proc") })
	g.Expect(code).To(BeZero())
	g.Expect(err).To(MatchError("finding the executable of this program: no /proc"))
	code, err = run(func() (string, error) { return "/none", nil })
	g.Expect(code).To(BeZero())
	g.Expect(err).To(MatchError("starting the program as a child of PID 1: fork/exec /none: no such file or directory"))
}

func TestItSleepsUntilAnyChildEnds(t *testing.T) {
	g := NewWithT(t)
	answers := []struct {
		ended int
		err   error
	}{{-1, syscall.EINTR}, {7, nil}, {-1, syscall.ECHILD}}
	code, err := await(8, func(pid int, _ *syscall.WaitStatus, options int, _ *syscall.Rusage) (int, error) {
		g.Expect([]int{pid, options}).To(Equal([]int{-1, 0}), "any child, and not at once")
		a := answers[0]
		answers = answers[1:]
		return a.ended, a.err
	})
	g.Expect(err).To(MatchError("waiting for processes: no child processes"))
	g.Expect(code).To(BeZero())
	g.Expect(answers).To(BeEmpty())
}
