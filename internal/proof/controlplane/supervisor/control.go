package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Control reads commands from in, one per line: "kill COMPONENT" and "restart".
// For each command it writes one line to out: "ok", or "error: " and the error
// as a quoted string. It returns at the end of the input.
func (s *Supervisor) Control(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer := "ok"
		if err := s.command(ctx, strings.Fields(lines.Text())); err != nil {
			answer = fmt.Sprintf("error: %q", err.Error())
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return fmt.Errorf("answering a command: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading commands: %w", err)
	}
	return nil
}

func (s *Supervisor) command(ctx context.Context, words []string) error {
	switch {
	case len(words) == 2 && words[0] == "kill":
		return s.Kill(ctx, words[1])
	case len(words) == 1 && words[0] == "restart":
		return s.Restart(ctx)
	default:
		return fmt.Errorf("command %q: must be %q or %q", strings.Join(words, " "), "kill COMPONENT", "restart")
	}
}
