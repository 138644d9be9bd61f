package gate

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Command forbids reboots unless it exits with status 0. The first line of its
// output is the reason.
type Command []string

// Blocked runs the command. It returns the empty string if the command
// succeeds, and otherwise the command with the first line of its output. If
// there is no output, the error replaces it.
func (c Command) Blocked(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, c[0], c[1:]...)
	cmd.WaitDelay = time.Second // limits the wait for children that still hold the output open
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if first == "" {
		first = err.Error()
	}
	return fmt.Sprintf("%s says: %s", strings.Join(c, " "), first)
}
