package machine

import (
	"context"
	"errors"
)

// ErrOtherBoot is the error of a Reboot for an earlier boot.
var ErrOtherBoot = errors.New("the machine has rebooted")

// Inhibited is a [Machine] on which other programs can inhibit a reboot for a
// while.
type Inhibited interface {
	// Inhibitors returns why a reboot is inhibited now, or the empty string.
	Inhibitors(ctx context.Context) (string, error)
}

// A Machine is the machine of a node.
type Machine interface {
	// BootID returns the id of the running boot.
	BootID(ctx context.Context) (string, error)
	// Reboot requests a reboot if bootID is the id of the running boot.
	Reboot(ctx context.Context, bootID string) error
}
