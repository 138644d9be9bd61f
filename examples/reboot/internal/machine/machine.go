package machine

import (
	"context"
	"errors"
)

// ErrOtherBoot means that the boot that should end is not the running boot, so
// the machine has already rebooted.
var ErrOtherBoot = errors.New("the machine has rebooted")

// ErrUnanswered means that the call was sent, and that its answer was lost, or
// does not say that the machine stays up. So the machine may reboot. For
// example, the host's D-Bus ends before it answers, or systemd-logind answers
// that a shutdown is already in progress.
var ErrUnanswered = errors.New("the machine has not answered, but may reboot")

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
	// Reboot requests a reboot if bootID is the id of the running boot. An
	// error means that the machine does not reboot, unless the error is
	// [ErrUnanswered] or ctx has ended.
	Reboot(ctx context.Context, bootID string) error
}
