package names

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

const (
	// DefaultMaxOutput is how many bytes a command may print.
	DefaultMaxOutput = 64 << 20
	// stderrTail is how much of a command's complaints an error quotes.
	stderrTail = 2048
	// killDelay is how long a command's descendants may hold its output open.
	killDelay = 2 * time.Second
)

// CommandOptions of [Command]. Nil and zero fields mean the defaults.
type CommandOptions struct {
	Format
	// Env is added to the environment of this process.
	Env []string
	// CleanEnv leaves out the environment of this process: there is Env alone.
	CleanEnv bool
	// Dir is the working directory; this process's own.
	Dir string
	// MaxOutput bounds the output in bytes; [DefaultMaxOutput]. More is an error.
	MaxOutput int
}

// Command lists the names that a program prints; see [Parse] for what it may
// print. It is run without a shell, and killed with its process group when the
// context ends; on Linux it is killed, too, if this process is.
//
// Errors: an exit code other than 0 (with the end of what the program wrote to
// standard error), too much output, a line that is no name.
func Command(o *CommandOptions, program string, args ...string) UIDLister {
	var options CommandOptions
	if o != nil {
		options = *o
	}
	options.MaxOutput = cmp.Or(max(options.MaxOutput, 0), DefaultMaxOutput)
	return UIDFunc(func(ctx context.Context) ([]Name, error) {
		all, err := options.run(ctx, program, args)
		if err != nil {
			return nil, fmt.Errorf("listing names with %q: %w", program, err)
		}
		return all, nil
	})
}

func (o CommandOptions) run(ctx context.Context, program string, args []string) ([]Name, error) {
	runtime.LockOSThread() // the kernel kills the command when the thread that made it ends
	defer runtime.UnlockOSThread()
	running, kill := context.WithCancel(ctx)
	defer kill()
	command := exec.CommandContext(running, program, args...)
	command.Env = o.environment()
	command.Dir = o.Dir
	command.WaitDelay = killDelay
	killWithDescendants(command)
	output, complaints := bounded{limit: o.MaxOutput, overflow: kill}, tail{}
	command.Stdout, command.Stderr = &output, &complaints
	if err := command.Run(); err != nil {
		if output.full {
			return nil, fmt.Errorf("it printed more than %d bytes: raise MaxOutput if that is right", o.MaxOutput)
		}
		return nil, errors.Join(err, context.Cause(ctx), complaints.err())
	}
	return Parse(&output.buffer, &o.Format)
}

func (o CommandOptions) environment() []string {
	if o.CleanEnv {
		return append([]string{}, o.Env...) // never nil, which would mean this process's
	}
	return append(os.Environ(), o.Env...)
}

// bounded keeps at most limit bytes, and calls overflow before the first byte
// more. The buffer is no embedded field: its ReadFrom would go past Write.
type bounded struct {
	buffer   bytes.Buffer
	limit    int
	full     bool
	overflow func()
}

var errFull = errors.New("buffer is full")

func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.limit {
		b.full = true
		b.overflow()
		return 0, errFull
	}
	return b.buffer.Write(p)
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - stderrTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) err() error {
	if text := strings.TrimSpace(string(t.kept)); text != "" {
		return fmt.Errorf("standard error ends with %q", text)
	}
	return nil
}
