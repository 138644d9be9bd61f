//go:build unix

package command_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
)

// A pausing writer takes nothing until it is released.
type pausing struct {
	io.Writer
	released <-chan struct{}
}

func (p *pausing) Write(b []byte) (int, error) {
	<-p.released
	return p.Writer.Write(b)
}

func TestNoLineIsLostIfOurReaderPauses(t *testing.T) {
	d := newDesk(t)
	pause, cancel := context.WithTimeout(t.Context(), 3*time.Second) // longer than a left-over may hold the output open
	defer cancel()
	d.Stdout = command.NewOutput(&pausing{d.stdout, pause.Done()}, "standard output")
	// A pipe holds 64 KiB: the program ends before half of it has been read.
	d.Expect(d.Run(t.Context(), sh(`i=0; while [ $i -lt 6000 ]; do echo "line $i"; i=$((i+1)); done`))).To(Succeed())
	d.Expect(strings.Count(d.stdout.String(), "\n")).To(Equal(6000))
	d.Expect(d.stdout.String()).To(HaveSuffix("line 5999\n"))
}

func TestAReaderThatNeverReadsIsNotWaitedForAtTheEnd(t *testing.T) {
	d := newDesk(t)
	never := make(chan struct{})
	defer close(never)
	stuck := &pausing{d.stdout, never}
	d.Stdout = command.NewOutput(stuck, "standard output")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, sh(`echo hello; echo started >&2`)) }()
	d.Eventually(d.stderr.String, patience).Should(Equal("started\n"))
	cancel()
	var err error
	d.Eventually(ended, patience).Should(Receive(&err))
	d.Expect(err).To(MatchError(command.ErrNotRead))
}

func TestAWriteThatFailsIsAnErrorAndTheLastOne(t *testing.T) {
	d := newDesk(t)
	writes := 0
	out := command.NewOutput(writerFunc(func([]byte) (int, error) {
		writes++
		return 0, syscall.ENOSPC
	}), "standard output")
	d.Stdout = out
	d.Expect(out.Err()).NotTo(HaveOccurred())
	d.Expect(out.Failed()).NotTo(BeClosed())
	err := d.Run(t.Context(), sh("echo hello; exit 0"))
	d.Expect(err).To(MatchError(syscall.ENOSPC))
	d.Expect(err).To(MatchError(ContainSubstring("writing to standard output: no space left on device")))
	d.Expect(out.Failed()).To(BeClosed())
	_, err = out.Write([]byte("more\n"))
	d.Expect(err).To(Equal(out.Err()))
	d.Expect(writes).To(Equal(1))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCapture(t *testing.T) {
	d := newDesk(t)
	output, err := d.Capture(t.Context(), sh("echo noise >&2; echo a; echo b"), 4)
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(string(output)).To(Equal("a\nb\n"))

	output, err = d.Capture(t.Context(), sh("echo a; echo no zone >&2; exit 3"), 100)
	d.Expect(err).To(MatchError(And(ContainSubstring("status code 3"), ContainSubstring(`standard error ends with "no zone"`))))
	d.Expect(output).To(BeNil())

	output, err = d.Capture(t.Context(), sh("while :; do echo a; done"), 1000)
	d.Expect(err).To(MatchError("it printed more than 1000 bytes"))
	d.Expect(output).To(BeNil())

	_, err = d.Capture(t.Context(), sh("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1"), 100)
	d.Expect(err).To(MatchError(ContainSubstring("status code 1")))
	d.Expect(len(err.Error())).To(BeNumerically("<", 4096), "the end of it")

	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	_, err = d.Capture(ctx, sh("sleep 1000"), 100)
	d.Expect(err).To(MatchError(late))
}
