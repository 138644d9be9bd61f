//go:build unix

package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
)

// patience bounds waits for real processes.
const patience = time.Minute

// A desk is a Runner whose output is kept.
type desk struct {
	*WithT
	command.Runner
	stdout, stderr *kept
}

// kept is a buffer for one writer and many readers.
type kept struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buffer.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buffer.String()
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{WithT: NewWithT(t), stdout: &kept{}, stderr: &kept{}}
	d.Runner = command.Runner{
		Env: os.Environ(), Stdout: command.NewOutput(d.stdout, "standard output"), Stderr: command.NewOutput(d.stderr, "standard error"),
	}
	return d
}

// sh is a call of a script.
func sh(script string, args ...string) command.Call {
	return command.Call{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func TestArgumentsReachTheProgramAsTheyAre(t *testing.T) {
	d := newDesk(t)
	odd := []string{"", " ", "$(id)", "`id`;x", "a\nb", "--rm", `"'\`, "ä", "*"}
	d.Expect(d.Run(t.Context(), sh(`for a; do printf '<%s>' "$a"; done`, odd...))).To(Succeed())
	d.Expect(d.stdout.String()).To(Equal("<" + strings.Join(odd, "><") + ">\n"))
}

func TestEnvironmentAndStdin(t *testing.T) {
	d := newDesk(t)
	d.Env = []string{"A=1", "B=2"}
	call := command.Call{Argv: []string{"/bin/sh", "-c", `echo "$A$B$C${HOME-none}"; cat`}, Env: []string{"B=3", "C=4"}}
	call.Stdin = []byte(`{"a":1}`)
	d.Expect(d.Run(t.Context(), call)).To(Succeed())
	d.Expect(d.stdout.String()).To(Equal("134none\n{\"a\":1}\n"))
	call.Stdin = nil
	d.Expect(d.Run(t.Context(), call)).To(Succeed(), "nothing to read is no terminal to wait for")
}

func TestAProgramNeedNotReadItsStdin(t *testing.T) {
	d := newDesk(t)
	call := sh("exit 0")
	call.Stdin = bytes.Repeat([]byte("x"), 1<<20)
	d.Expect(d.Run(t.Context(), call)).To(Succeed())
}

func TestHowRunsEnd(t *testing.T) {
	d := newDesk(t)
	err := d.Run(t.Context(), sh("exit 7"))
	d.Expect(err).To(Equal(&command.ExitError{Program: "sh", Code: 7}))
	d.Expect(err).To(MatchError(`command "sh" exited with status code 7`))
	d.Expect(d.Run(t.Context(), sh("kill -9 $$"))).To(MatchError(ContainSubstring("signal: killed")))
	d.Expect(d.Run(t.Context(), command.Call{Argv: []string{"/does/not/exist"}})).To(MatchError(os.ErrNotExist))
}

func TestAWrongFirstLineOfAScriptIsExplained(t *testing.T) {
	d := newDesk(t)
	script := filepath.Join(t.TempDir(), "script")
	for first, says := range map[string]string{
		"echo hello\n":          "the first line of a script must be #!/bin/sh",
		"#!/bin/sh\r\nexit 0\n": "does that line end with CR?",
	} {
		d.Expect(os.WriteFile(script, []byte(first), 0o700)).To(Succeed())
		d.Expect(d.Run(t.Context(), command.Call{Argv: []string{script}})).To(MatchError(ContainSubstring(says)))
	}
}

func TestWhatTheKernelDoesNotTakeIsNamed(t *testing.T) {
	d := newDesk(t)
	big := strings.Repeat("x", 128<<10) // with the NUL one byte more than the kernel takes
	err := d.Run(t.Context(), sh("exit 0", big))
	d.Expect(err).To(MatchError(command.ErrTooLarge))
	d.Expect(err).To(MatchError(And(ContainSubstring("argument 4 has 131072 bytes"), ContainSubstring("--stdin"))))
	call := sh("exit 0")
	call.Env = []string{"OBJECT=" + big}
	d.Expect(d.Run(t.Context(), call)).To(MatchError(And(ContainSubstring("variable OBJECT"), ContainSubstring("--stdin"))))
	call.Env = []string{"OBJECT=" + big[len("OBJECT="):]} // as long as an argument that is refused
	d.Expect(d.Run(t.Context(), call)).To(MatchError(ContainSubstring("variable OBJECT has 131072 bytes")))
	call.Env = []string{"OBJECT=" + big[len("OBJECT=")+1:]}
	d.Expect(d.Run(t.Context(), call)).To(Succeed(), "the longest there is")
	d.Expect(d.Run(t.Context(), sh("exit 0", big[1:]))).To(Succeed(), "the longest there is")
	all := make([]string, 64)
	for i := range all {
		all[i] = big[1:]
	}
	err = d.Run(t.Context(), sh("exit 0", all...))
	d.Expect(err).To(MatchError(command.ErrTooLarge))
	d.Expect(err).To(MatchError(ContainSubstring("--stdin")))
	d.Expect(d.Run(t.Context(), sh("exit 0", "a\x00b"))).To(MatchError(ContainSubstring("NUL")))
}

func TestATimeoutEndsTheWholeGroup(t *testing.T) {
	d := newDesk(t)
	child := filepath.Join(t.TempDir(), "child")
	d.Timeout = 300 * time.Millisecond
	err := d.Run(t.Context(), sh(`sleep 1000 & echo $! >"$1.tmp"; mv "$1.tmp" "$1"; wait`, child))
	d.Expect(err).To(Equal(&command.TimeoutError{Program: "sh", Timeout: d.Timeout}))
	if _, err := os.Stat(child); err == nil { // it came that far
		d.Eventually(func() bool { return alive(d, child) }, patience).Should(BeFalse())
	}
}

func TestTheShortestTimeoutIsANanosecond(t *testing.T) {
	d := newDesk(t)
	d.Timeout = 1
	err := d.Run(t.Context(), command.Call{Argv: []string{"sleep", "1000"}})
	d.Expect(err).To(Equal(&command.TimeoutError{Program: "sleep", Timeout: 1}))
}

// The collector, which would close forgotten descriptors, does not run
// meanwhile.
func TestARunLeavesNoDescriptorOpen(t *testing.T) {
	d := newDesk(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	call := sh(`setsid sleep 1000 & cat; echo bye >&2`)
	call.Stdin = []byte("hello")
	open := func() int {
		d.Expect(d.Run(t.Context(), call)).To(Succeed())
		d.Expect(d.Run(t.Context(), command.Call{Argv: []string{"/does/not/exist"}, Stdin: call.Stdin})).NotTo(Succeed())
		entries, err := os.ReadDir("/proc/self/fd")
		d.Expect(err).NotTo(HaveOccurred())
		return len(entries)
	}
	before := open() // with those that the runtime keeps
	d.Expect(open()).To(Equal(before))
}

func TestTheEndOfTheContextIsPoliteFirst(t *testing.T) {
	d := newDesk(t)
	d.Grace = patience // the machine may be busy
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.Run(ctx, sh(`trap 'echo bye; exit 0' TERM; touch "$1"; while :; do sleep 0.05; done`, ready))
	}()
	d.Eventually(ready, patience).Should(BeAnExistingFile())
	late := errors.New("stopping")
	cancel(late)
	var err error
	d.Eventually(ended, patience).Should(Receive(&err))
	d.Expect(d.stdout.String()).To(Equal("bye\n"))
	d.Expect(err).NotTo(HaveOccurred(), "it ended well, and in time")
}

func TestAProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	d := newDesk(t)
	d.Grace = 50 * time.Millisecond
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, sh(`trap '' TERM; touch "$1"; while :; do sleep 0.05; done`, ready)) }()
	d.Eventually(ready, patience).Should(BeAnExistingFile())
	late := errors.New("stopping")
	cancel(late)
	var err error
	d.Eventually(ended, patience).Should(Receive(&err))
	d.Expect(err).To(MatchError(late))
	d.Expect(err).To(MatchError(context.Canceled))
}

func TestNothingOfARunOutlivesIt(t *testing.T) {
	d := newDesk(t)
	child := filepath.Join(t.TempDir(), "child")
	d.Expect(d.Run(t.Context(), sh(`sleep 1000 & echo $! >"$1"; echo done`, child))).To(Succeed())
	d.Expect(d.stdout.String()).To(Equal("done\n"))
	d.Eventually(func() bool { return alive(d, child) }, patience).Should(BeFalse())
}

func TestNothingInASessionOfItsOwnOutlivesARunEither(t *testing.T) {
	d := newDesk(t)
	for name, script := range map[string]string{
		"at its end":       `setsid sh -c 'echo $$ >"$1.tmp"; mv "$1.tmp" "$1"; exec sleep 1000' sh "$1" >/dev/null 2>&1 & while [ ! -e "$1" ]; do :; done`,
		"with its output":  `setsid sh -c 'echo $$ >"$1.tmp"; mv "$1.tmp" "$1"; exec sleep 1000' sh "$1" & while [ ! -e "$1" ]; do :; done`,
		"and what it made": `setsid sh -c 'setsid sleep 1000 & echo $! >"$1.tmp"; mv "$1.tmp" "$1"' sh "$1" & while [ ! -e "$1" ]; do :; done`,
	} {
		child := filepath.Join(t.TempDir(), "child")
		d.Expect(d.Run(t.Context(), sh(script, child))).To(Succeed(), name)
		d.Eventually(func() bool { return alive(d, child) }, patience).Should(BeFalse(), name)
	}
}

func TestATimeoutEndsAlsoWhatHasASessionOfItsOwn(t *testing.T) {
	d := newDesk(t)
	child := filepath.Join(t.TempDir(), "child")
	d.Timeout, d.Grace = 2*time.Second, 100*time.Millisecond
	err := d.Run(t.Context(), sh(`setsid sh -c 'trap "" TERM; echo $$ >"$1.tmp"; mv "$1.tmp" "$1"; while :; do sleep 0.05; done' sh "$1"`, child))
	d.Expect(err).To(Equal(&command.TimeoutError{Program: "sh", Timeout: d.Timeout}))
	if _, err := os.Stat(child); err == nil { // it came that far
		d.Eventually(func() bool { return alive(d, child) }, patience).Should(BeFalse())
	}
}

func TestWhatHasASessionOfItsOwnIsAskedToEndFirst(t *testing.T) {
	d := newDesk(t)
	d.Grace = patience // the machine may be busy
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.Run(ctx, sh(`trap : TERM; setsid sh -c 'trap "echo bye; exit 0" TERM; touch "$1"; while :; do sleep 0.05; done' sh "$1" & `+
			`wait; wait`, ready))
	}()
	d.Eventually(ready, patience).Should(BeAnExistingFile())
	cancel()
	d.Eventually(ended, patience).Should(Receive(Succeed()))
	d.Expect(d.stdout.String()).To(Equal("bye\n"))
}

func TestTheFamiliesOfOtherRunsAreLeftAlone(t *testing.T) {
	d := newDesk(t)
	ready, stop := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "stop")
	other := make(chan error, 1)
	go func() {
		other <- d.Run(t.Context(), sh(`setsid sh -c 'touch "$1"; while [ ! -e "$2" ]; do sleep 0.05; done; echo bye' sh "$1" "$2"`, ready, stop))
	}()
	d.Eventually(ready, patience).Should(BeAnExistingFile())
	d.Expect(d.Run(t.Context(), sh("exit 0"))).To(Succeed())
	d.Expect(os.WriteFile(stop, nil, 0o600)).To(Succeed())
	d.Eventually(other, patience).Should(Receive(Succeed()))
	d.Expect(d.stdout.String()).To(Equal("bye\n"))
}

// alive reports whether the process whose id is in a file exists and is not a
// zombie.
func alive(d *desk, file string) bool {
	text, err := os.ReadFile(file)
	d.Expect(err).NotTo(HaveOccurred())
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	d.Expect(err).NotTo(HaveOccurred())
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id)); err == nil {
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return syscall.Kill(id, 0) == nil
}

func TestLinesOfProgramsAreNotMixed(t *testing.T) {
	d := newDesk(t)
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			letter := string(rune('a' + i))
			script := `i=0; while [ $i -lt 200 ]; do printf "$1"; printf "$1$1$1\n"; i=$((i+1)); done`
			d.Check(d.Run(t.Context(), sh(script, letter)))
		})
	}
	running.Wait()
	counts := map[string]int{}
	for line := range strings.Lines(d.stdout.String()) {
		counts[line]++
	}
	d.Expect(counts).To(Equal(map[string]int{"aaaa\n": 200, "bbbb\n": 200, "cccc\n": 200, "dddd\n": 200}))
}

// Check notes an error of another goroutine.
func (d *desk) Check(err error) {
	if err != nil {
		_, _ = d.stdout.Write([]byte("error: " + err.Error() + "\n"))
	}
}

func TestTenMegabytesPass(t *testing.T) {
	d := newDesk(t)
	var size counter
	d.Stdout = command.NewOutput(&size, "standard output")
	d.Expect(d.Run(t.Context(), sh(`head -c 10485760 /dev/zero`))).To(Succeed())
	d.Expect(int(size)).To(Equal(10<<20 + 1)) // and the end of the line
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
