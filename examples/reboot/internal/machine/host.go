package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// DefaultBootIDFile is where Linux tells its boot id.
const DefaultBootIDFile = "/proc/sys/kernel/random/boot_id"

// DefaultCommand asks systemd-logind for a reboot.
const DefaultCommand = "systemctl reboot"

// A Host is the machine that this process runs on. The zero value is usable.
type Host struct {
	// BootIDFile has the boot id; [DefaultBootIDFile].
	BootIDFile string
	// Command reboots, in words separated by spaces; [DefaultCommand].
	Command string
	// Signal, if not 0, is sent to PID 1 instead of running Command: systemd
	// reboots at SIGRTMIN+5, which is 39. It needs the host's PID namespace.
	Signal int
}

// BootID reads the boot id.
func (h *Host) BootID(context.Context) (string, error) {
	text, err := os.ReadFile(cmp.Or(h.BootIDFile, DefaultBootIDFile))
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", fmt.Errorf("reading the boot id: %s is empty", cmp.Or(h.BootIDFile, DefaultBootIDFile))
	}
	return id, nil
}

// Reboot asks the host's init system for a reboot. Errors carry what the command
// printed.
func (h *Host) Reboot(ctx context.Context, bootID string) error {
	running, err := h.BootID(ctx)
	if err != nil {
		return err
	}
	if running != bootID {
		return fmt.Errorf("rebooting boot %s: %w", bootID, ErrOtherBoot)
	}
	if h.Signal != 0 {
		if err := syscall.Kill(1, syscall.Signal(h.Signal)); err != nil {
			return fmt.Errorf("rebooting by signal %d to PID 1: %w", h.Signal, err)
		}
		return nil
	}
	words := strings.Fields(cmp.Or(h.Command, DefaultCommand))
	if len(words) == 0 {
		return fmt.Errorf("rebooting: the command %q is empty", h.Command)
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("rebooting with %q: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
