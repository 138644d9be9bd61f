package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// stderrTail is how many bytes of a program's standard error an error quotes.
const stderrTail = 2048

// Capture runs a program like [Runner.Run], but returns its standard output of
// at most limit bytes. It does not use Stdout and Stderr.
//
// It returns the errors of Run together with the end of the program's standard
// error, or an error for too much output. It returns no output with an error.
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

// fullError is the error of a program that has printed more than limit bytes.
type fullError struct{ limit int }

func (e *fullError) Error() string { return fmt.Sprintf("it printed more than %d bytes", e.limit) }

// bounded keeps at most limit bytes, and calls overflow when more are written.
// The buffer is not embedded, because its ReadFrom would bypass Write.
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

// tail keeps the last bytes of its input.
type tail struct{ text []byte }

func (t *tail) Close() error { return nil }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if excess := len(t.text) - stderrTail; excess > 0 {
		t.text = append(t.text[:0], t.text[excess:]...)
	}
	return len(p), nil
}

func (t *tail) err() error {
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return fmt.Errorf("standard error ends with %q", text)
	}
	return nil
}
