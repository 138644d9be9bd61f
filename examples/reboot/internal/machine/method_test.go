package machine_test

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

// bus is a D-Bus with a systemd-logind on it: it answers Hello and Reboot.
type bus struct {
	socket string
	calls  chan string // of others than the bus itself, with their arguments
	refuse bool
	// hangUp is set for a call that gets no answer.
	hangUp atomic.Bool
	// refusal is a string, the name of the error of a bus that refuses. Empty
	// means that access is denied.
	refusal atomic.Value
	// inhibitors are what ListInhibitors answers.
	inhibitors []inhibitor
}

type inhibitor struct {
	What, Who, Why, Mode string
	UID, PID             uint32
}

func newBus(t *testing.T, refuse bool, inhibitors ...inhibitor) *bus {
	g := gomega.NewWithT(t)
	b := &bus{socket: filepath.Join(t.TempDir(), "bus"), calls: make(chan string, 1), refuse: refuse, inhibitors: inhibitors}
	listener, err := net.Listen("unix", b.socket)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		b.serve(t, conn)
	}()
	return b
}

func (b *bus) serve(t *testing.T, conn net.Conn) {
	in := bufio.NewReader(conn)
	for { // until the client begins
		line, err := in.ReadString('\n')
		if err != nil {
			t.Errorf("authenticating: %v", err)
			return
		}
		answer := "OK 1234567890123456789012345678abcd\r\n"
		switch words := strings.Fields(strings.TrimLeft(line, "\x00")); {
		case words[0] == "BEGIN":
			b.answer(in, conn)
			return
		case words[0] == "NEGOTIATE_UNIX_FD":
			answer = "ERROR\r\n"
		case words[0] == "AUTH" && len(words) == 1:
			answer = "REJECTED EXTERNAL\r\n"
		}
		_, _ = conn.Write([]byte(answer))
	}
}

func (b *bus) answer(in *bufio.Reader, conn net.Conn) {
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return // It has hung up.
		}
		member := call.Headers[dbus.FieldInterface].Value().(string) + "." + call.Headers[dbus.FieldMember].Value().(string)
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
		}}
		body := []any{}
		switch {
		case member == "org.freedesktop.DBus.Hello":
			body = []any{":1.1"}
		case b.refuse:
			reply.Type = dbus.TypeError
			refusal, _ := b.refusal.Load().(string)
			name := cmp.Or(refusal, "org.freedesktop.DBus.Error.AccessDenied")
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(name)
			body = []any{"Permission denied"}
		case member == "org.freedesktop.login1.Manager.ListInhibitors":
			body = []any{b.inhibitors}
		default:
			if call.Body[0] != false {
				member += " asks a person"
			}
			b.calls <- call.Headers[dbus.FieldDestination].Value().(string) + " " + member
			if b.hangUp.Load() {
				return
			}
		}
		if len(body) > 0 {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
		}
		reply.Body = body
		_ = reply.EncodeTo(conn, binary.LittleEndian) // The client may have disconnected.
	}
}

func TestLogindIsAskedWithoutAPerson(t *testing.T) {
	g := gomega.NewWithT(t)
	b := newBus(t, false)
	g.Expect((&machine.Logind{Socket: b.socket}).Reboot(t.Context())).To(gomega.Succeed())
	g.Expect(<-b.calls).To(gomega.Equal("org.freedesktop.login1 org.freedesktop.login1.Manager.Reboot"))
}

// The bus may have ended because the machine goes down.
func TestACallWhoseAnswerIsLostMayRebootTheMachine(t *testing.T) {
	g := gomega.NewWithT(t)
	b := newBus(t, false)
	b.hangUp.Store(true)
	g.Expect((&machine.Logind{Socket: b.socket}).Reboot(t.Context())).To(gomega.MatchError(machine.ErrUnanswered))
	for _, name := range []string{
		"org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Timeout", "org.freedesktop.DBus.Error.TimedOut",
		"org.freedesktop.DBus.Error.Disconnected", "org.freedesktop.login1.OperationInProgress",
	} {
		b = newBus(t, true)
		b.refusal.Store(name)
		err := (&machine.Logind{Socket: b.socket}).Reboot(t.Context())
		g.Expect(err).To(gomega.MatchError(machine.ErrUnanswered), name)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	g.Expect(os.WriteFile(killed, []byte("#!/bin/sh\nkill -9 $$\n"), 0o700)).To(gomega.Succeed())
	g.Expect(machine.Command(killed).Reboot(t.Context())).To(gomega.MatchError(machine.ErrUnanswered))

	refused := (&machine.Logind{Socket: newBus(t, true).socket}).Reboot(t.Context())
	g.Expect(refused).To(gomega.And(gomega.HaveOccurred(), gomega.Not(gomega.MatchError(machine.ErrUnanswered))))
	for _, method := range []machine.Method{&machine.Logind{Socket: "/not/there"}, machine.Command("false"), machine.Command("/not/there")} {
		g.Expect(method.Reboot(t.Context())).To(gomega.And(gomega.HaveOccurred(), gomega.Not(gomega.MatchError(machine.ErrUnanswered))))
	}
}

func TestLogindNamesWhatBlocksAShutdown(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect((&machine.Logind{Socket: newBus(t, false).socket}).Inhibitors(t.Context())).To(gomega.BeEmpty())
	b := newBus(t, false,
		inhibitor{"sleep:idle", "desktop", "a film", "block", 0, 1}, inhibitor{"shutdown", "kubelet", "Pods", "delay", 0, 2},
		inhibitor{"shutdown", "old", "weak", "block-weak", 0, 3}, inhibitor{"sleep:shutdown", "backup", "it runs", "block", 0, 4})
	g.Expect((&machine.Host{Method: &machine.Logind{Socket: b.socket}}).Inhibitors(t.Context())).To(gomega.Equal(
		"backup blocks a shutdown: it runs (systemd-inhibit --list)"))
	g.Expect((&machine.Host{Method: &machine.Signal{}}).Inhibitors(t.Context())).To(gomega.BeEmpty(), "it cannot tell")
	_, err := (&machine.Logind{Socket: newBus(t, true).socket}).Inhibitors(t.Context())
	g.Expect(err).To(gomega.MatchError("reading the inhibitors of systemd-logind: Permission denied"))
}

func TestLogindMayRefuse(t *testing.T) {
	g := gomega.NewWithT(t)
	b := newBus(t, true)
	g.Expect((&machine.Logind{Socket: b.socket}).Reboot(t.Context())).To(gomega.MatchError(
		"rebooting through systemd-logind: Permission denied"))
}

func TestWithoutABusLogindIsNotReached(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect((&machine.Logind{Socket: "/does/not/exist"}).Reboot(t.Context())).To(gomega.MatchError(
		gomega.And(gomega.HavePrefix("rebooting through systemd-logind: connecting to /does/not/exist"), gomega.ContainSubstring("no such file"))))
}

func TestASignalIsSentToTheFirstProcess(t *testing.T) {
	g := gomega.NewWithT(t)
	var pid int
	var sent syscall.Signal
	method := &machine.Signal{Number: machine.SystemdReboot, Send: func(p int, s syscall.Signal) error {
		pid, sent = p, s
		return nil
	}}
	g.Expect(method.Reboot(t.Context())).To(gomega.Succeed())
	g.Expect(pid).To(gomega.Equal(1))
	g.Expect(sent).To(gomega.BeEquivalentTo(39))
	method.Send = func(int, syscall.Signal) error { return errors.New("not permitted") }
	g.Expect(method.Reboot(t.Context())).To(gomega.MatchError("rebooting by signal 39 to PID 1: not permitted"))
}

func TestTheRequestOfASentinelIsNamedAfterItsTime(t *testing.T) {
	g := gomega.NewWithT(t)
	file := filepath.Join(t.TempDir(), "reboot-required")
	g.Expect(machine.Sentinel(file).Request()).To(gomega.BeEmpty())
	g.Expect(os.WriteFile(file, nil, 0o600)).To(gomega.Succeed())
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	g.Expect(os.Chtimes(file, at, at)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Request()).To(gomega.Equal("reboot-required 2026-11-22T12:00:00Z"))
	_, err := machine.Sentinel(filepath.Join(file, "below")).Request()
	g.Expect(err).To(gomega.MatchError(gomega.HavePrefix("reading the file that requests a reboot")))
}

func TestAMirrorIsTheSameRequest(t *testing.T) {
	g := gomega.NewWithT(t)
	host, pod := t.TempDir(), t.TempDir()
	file, mirror := filepath.Join(host, "reboot-required"), filepath.Join(pod, "reboot-required")
	g.Expect(machine.Sentinel(file).Mirror(mirror)).To(gomega.Succeed())
	g.Expect(mirror).NotTo(gomega.BeAnExistingFile())
	for _, at := range []time.Time{
		time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC),
	} {
		g.Expect(os.WriteFile(file, []byte("packages"), 0o600)).To(gomega.Succeed())
		g.Expect(os.Chtimes(file, at, at)).To(gomega.Succeed())
		g.Expect(machine.Sentinel(file).Mirror(mirror)).To(gomega.Succeed())
		want, err := machine.Sentinel(file).Request()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(machine.Sentinel(mirror).Request()).To(gomega.Equal(want))
	}
	g.Expect(os.Remove(file)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Mirror(mirror)).To(gomega.Succeed())
	g.Expect(os.ReadDir(pod)).To(gomega.BeEmpty())
	g.Expect(machine.Sentinel(filepath.Join(file, "below")).Mirror(filepath.Join(pod, "no", "such"))).To(gomega.Succeed())
	g.Expect(os.WriteFile(file, nil, 0o600)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Mirror(filepath.Join(pod, "no", "such"))).To(gomega.MatchError(
		gomega.HavePrefix("mirroring the file that requests a reboot")))
}

// The agent is of another user than the mirror.
func TestAMirrorIsReadableByAllUsersAndTheOnlyFile(t *testing.T) {
	g := gomega.NewWithT(t)
	host, pod := t.TempDir(), t.TempDir()
	file, mirror := filepath.Join(host, "reboot-required"), filepath.Join(pod, "reboot-required")
	g.Expect(os.WriteFile(file, []byte("packages"), 0o600)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Mirror(mirror)).To(gomega.Succeed())
	info, err := os.Stat(mirror)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(info.Mode().Perm()).To(gomega.BeEquivalentTo(0o644))
	g.Expect(info.Size()).To(gomega.BeZero(), "what is in the file stays on the host")

	unclear := machine.Sentinel(filepath.Join(file, "below")).Mirror(mirror)
	g.Expect(unclear).To(gomega.MatchError(gomega.HavePrefix("mirroring the file that requests a reboot")))
	g.Expect(mirror).To(gomega.BeAnExistingFile(), "the file of the host may be there")

	g.Expect(os.Remove(mirror)).To(gomega.Succeed())
	g.Expect(os.MkdirAll(filepath.Join(mirror, "in the way"), 0o755)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Mirror(mirror)).NotTo(gomega.Succeed())
	g.Expect(os.ReadDir(pod)).To(gomega.HaveLen(1), "no temporary file is left")
	g.Expect(os.Remove(file)).To(gomega.Succeed())
	g.Expect(machine.Sentinel(file).Mirror(mirror)).To(gomega.MatchError(gomega.ContainSubstring("not empty")))
}
