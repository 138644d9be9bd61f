package machine

import (
	"context"
	"errors"
)

// ErrOtherBoot says that the machine has rebooted since: there is nothing to do.
var ErrOtherBoot = errors.New("the machine runs another boot by now")

// Inhibited is a [Machine] that may know what forbids it to reboot.
type Inhibited interface {
	// Inhibitors says what forbids a reboot now, or "".
	Inhibitors(ctx context.Context) (string, error)
}

// A Machine is the machine of a node.
type Machine interface {
	// BootID returns the id of the running kernel's boot.
	BootID(ctx context.Context) (string, error)
	// Reboot begins a reboot if bootID is still the running one.
	Reboot(ctx context.Context, bootID string) error
}
