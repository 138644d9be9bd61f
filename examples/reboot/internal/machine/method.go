package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"
)

// DefaultSocket is the path of the socket of the D-Bus system bus.
const DefaultSocket = "/run/dbus/system_bus_socket"

// Logind requests a reboot from systemd-logind. That daemon informs the
// sessions, obeys inhibitors and stops the units in order. Logind needs access
// to the socket of the D-Bus system bus, and must run as root (UID 0). It needs
// no Linux capabilities and none of the host's namespaces, such as the
// namespace that hostPID shares.
type Logind struct {
	// Socket is the path of the socket of the D-Bus system bus. Defaults to
	// [DefaultSocket].
	Socket string
}

const (
	login1  = "org.freedesktop.login1"
	manager = login1 + ".Manager."
	bus     = "org.freedesktop.DBus.Error."
)

// unanswered are the names of the errors after which the machine may go down.
// The bus sends most of them, for example if logind ends before it answers.
// Logind itself sends OperationInProgress, if a shutdown has already begun.
var unanswered = []string{
	bus + "NoReply", bus + "Timeout", bus + "TimedOut", bus + "Disconnected", login1 + ".OperationInProgress",
}

// Reboot requests a reboot without a password prompt.
func (l *Logind) Reboot(ctx context.Context) error {
	const interactive = false
	if err := l.call(ctx, "Reboot", nil, interactive); err != nil {
		return fmt.Errorf("rebooting through systemd-logind: %w", err)
	}
	return nil
}

// Inhibitors returns the programs that block a shutdown. Since systemd 257,
// inhibitors also apply to root.
func (l *Logind) Inhibitors(ctx context.Context) (string, error) {
	var inhibitors []struct {
		What, Who, Why, Mode string
		UID, PID             uint32
	}
	if err := l.call(ctx, "ListInhibitors", &inhibitors); err != nil {
		return "", fmt.Errorf("reading the inhibitors of systemd-logind: %w", err)
	}
	var blocking []string
	for _, i := range inhibitors {
		if i.Mode == "block" && slices.Contains(strings.Split(i.What, ":"), "shutdown") {
			blocking = append(blocking, fmt.Sprintf("%s blocks a shutdown: %s (systemd-inhibit --list)", i.Who, i.Why))
		}
	}
	return strings.Join(blocking, "; "), nil
}

// call calls a method of logind's manager. If out is not nil, it stores the
// answer there. It returns [ErrUnanswered] if no answer follows the call, or if
// the answer does not say that the machine stays up.
func (l *Logind) call(ctx context.Context, method string, out any, args ...any) error {
	socket := cmp.Or(l.Socket, DefaultSocket)
	conn, err := dbus.Connect("unix:path="+socket, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", socket, err)
	}
	defer func() { _ = conn.Close() }() // The call has returned.
	answer := conn.Object(login1, "/org/freedesktop/login1").CallWithContext(ctx, manager+method, 0, args...)
	refusal, answered := errors.AsType[dbus.Error](answer.Err)
	if answer.Err != nil && (!answered || slices.Contains(unanswered, refusal.Name)) {
		return errors.Join(ErrUnanswered, answer.Err)
	}
	if answer.Err != nil || out == nil {
		return answer.Err
	}
	return answer.Store(out)
}

// SystemdReboot is the signal that makes systemd reboot: SIGRTMIN+5.
const SystemdReboot = 39

// Signal sends a signal to PID 1 of the host. The process must run in the
// host's PID namespace, as root (UID 0) or with the capability CAP_KILL.
type Signal struct {
	Number int
	// Send sends a signal to a process. Defaults to kill(2).
	Send func(pid int, signal syscall.Signal) error
}

// Reboot sends the signal. It returns an error if the signal is not permitted.
// It also returns an error if PID 1 is this program, because then the Pod has
// its own PID namespace. If PID 1 belongs to another container, Reboot does not
// detect this: it returns nil, although the machine does not reboot.
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

// DefaultCommand requests a reboot from systemd-logind.
const DefaultCommand = "systemctl reboot"

// Command is a command that reboots. Spaces separate its words.
type Command string

// Reboot runs the command. Errors include its output. If a signal has ended the
// command, the error is [ErrUnanswered], because the command may have requested
// the reboot before that.
func (c Command) Reboot(ctx context.Context) error {
	words := strings.Fields(string(c))
	if len(words) == 0 {
		return fmt.Errorf("rebooting: the command %q is empty", string(c))
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && !ended.Exited() {
		err = errors.Join(ErrUnanswered, err)
	}
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
