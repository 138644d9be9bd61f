package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
)

// DefaultBootIDFile is the file that contains the boot id on Linux.
const DefaultBootIDFile = "/proc/sys/kernel/random/boot_id"

// A Host is the machine on which this process runs. The zero value is ready to
// use.
type Host struct {
	// BootIDFile is the file that contains the boot id. Defaults to
	// [DefaultBootIDFile].
	BootIDFile string
	// Method reboots the machine. Defaults to [Logind].
	Method Method
}

// A Method requests a reboot from the host's init system. It may return before
// the machine goes down, or never. It returns [ErrUnanswered] if the init system
// may have got the request.
type Method interface {
	Reboot(ctx context.Context) error
}

// Inhibitors returns why a reboot is inhibited now. It returns the empty string
// if no program inhibits it, or if the method does not support inhibitors.
func (h *Host) Inhibitors(ctx context.Context) (string, error) {
	if m, ok := h.method().(Inhibited); ok {
		return m.Inhibitors(ctx)
	}
	return "", nil
}

func (h *Host) method() Method {
	if h.Method == nil {
		return &Logind{}
	}
	return h.Method
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

// Reboot requests a reboot if bootID is the id of the running boot. Otherwise
// it returns [ErrOtherBoot].
func (h *Host) Reboot(ctx context.Context, bootID string) error {
	running, err := h.BootID(ctx)
	if err != nil {
		return err
	}
	if running != bootID {
		return fmt.Errorf("rebooting boot %s: %w", bootID, ErrOtherBoot)
	}
	return h.method().Reboot(ctx)
}
