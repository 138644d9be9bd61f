package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"
)

// DefaultSocket is where the D-Bus of the system listens.
const DefaultSocket = "/run/dbus/system_bus_socket"

// Logind asks systemd-logind for a reboot: it tells the sessions, obeys inhibitors and
// ends the units in order. It needs the socket of the system's D-Bus and user 0, no
// capability and none of the host's namespaces.
type Logind struct {
	// Socket of the system's D-Bus. Defaults to [DefaultSocket].
	Socket string
}

// Reboot asks for a reboot without asking a person.
func (l *Logind) Reboot(ctx context.Context) error {
	socket := l.Socket
	if socket == "" {
		socket = DefaultSocket
	}
	conn, err := dbus.Connect("unix:path="+socket, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("rebooting through systemd-logind: connecting to %s: %w", socket, err)
	}
	defer func() { _ = conn.Close() }() // The call has been answered.
	const interactive = false
	err = conn.Object("org.freedesktop.login1", "/org/freedesktop/login1").
		CallWithContext(ctx, "org.freedesktop.login1.Manager.Reboot", 0, interactive).Err
	if err != nil {
		return fmt.Errorf("rebooting through systemd-logind: %w", err)
	}
	return nil
}

// SystemdReboot is the signal at which systemd reboots: SIGRTMIN+5.
const SystemdReboot = 39

// Signal is sent to PID 1, which must be the host's: it needs the host's PID namespace
// and user 0, as PID 1 is of user 0, or the capability CAP_KILL.
type Signal struct {
	Number int
	// Send sends a signal to a process. Defaults to kill(2).
	Send func(pid int, signal syscall.Signal) error
}

// Reboot sends the signal. Errors: PID 1 is this program, so it is not in the host's PID
// namespace; or it must not send PID 1 a signal. A PID 1 of another container than the
// host's is not noticed: it does not reboot.
func (s *Signal) Reboot(context.Context) error {
	send := s.Send
	if send == nil {
		send = kill
	}
	if s.Send == nil && os.Getpid() == 1 {
		return errors.New("rebooting by signal: PID 1 is this program: set hostPID in the Pod's spec")
	}
	if err := send(1, syscall.Signal(s.Number)); err != nil {
		return fmt.Errorf("rebooting by signal %d to PID 1: %w", s.Number, err)
	}
	return nil
}

// DefaultCommand asks systemd-logind for a reboot.
const DefaultCommand = "systemctl reboot"

// Command is a command that reboots, in words separated by spaces.
type Command string

// Reboot runs the command. Errors include its output.
func (c Command) Reboot(ctx context.Context) error {
	words := strings.Fields(string(c))
	if len(words) == 0 {
		return fmt.Errorf("rebooting: the command %q is empty", string(c))
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("rebooting with %q: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

var (
	_ Method = &Logind{}
	_ Method = &Signal{}
	_ Method = Command("")
)
