package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
)

// DefaultBootIDFile is the file in which Linux has its boot id.
const DefaultBootIDFile = "/proc/sys/kernel/random/boot_id"

// A Host is the machine that this process runs on. The zero value is usable.
type Host struct {
	// BootIDFile has the boot id. Defaults to [DefaultBootIDFile].
	BootIDFile string
	// Method reboots. Defaults to [Logind].
	Method Method
}

// A Method asks the host's init system for a reboot. It may return before the
// machine goes down, or never.
type Method interface {
	Reboot(ctx context.Context) error
}

// Inhibitors asks the method what forbids a reboot. One that cannot tell
// forbids nothing.
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

// Reboot asks for a reboot if bootID is still the running one.
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
