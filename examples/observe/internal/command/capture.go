package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// stderrTail is how much of a program's complaints an error quotes, in bytes.
const stderrTail = 2048

// Capture runs a program like [Runner.Run], but returns its standard output,
// at most limit bytes. Stdout and Stderr are not used.
//
// Errors: those of Run, with the end of the program's standard error; too
// much output. There is no output then.
func (r *Runner) Capture(ctx context.Context, call Call, limit int) ([]byte, error) {
	running, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	output := &bounded{limit: limit, overflow: kill}
	var complaints tail
	if err := r.run(running, call, output, &complaints); err != nil {
		if full, ok := errors.AsType[*fullError](context.Cause(running)); ok {
			return nil, full
		}
		return nil, errors.Join(err, complaints.err())
	}
	return output.buffer.Bytes(), nil
}

// fullError says that a program has printed more than it may.
type fullError struct{ limit int }

func (e *fullError) Error() string { return fmt.Sprintf("it printed more than %d bytes", e.limit) }

// bounded keeps at most limit bytes, and calls overflow before the first byte
// more. The buffer is no embedded field: its ReadFrom would go past Write.
type bounded struct {
	buffer   bytes.Buffer
	limit    int
	overflow context.CancelCauseFunc
}

func (b *bounded) Close() error { return nil }

func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.limit {
		err := &fullError{b.limit}
		b.overflow(err)
		return 0, err
	}
	return b.buffer.Write(p)
}

// tail keeps the end of its input.
type tail struct{ kept []byte }

func (t *tail) Close() error { return nil }

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
