package machine_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

// role is set in the processes that this test starts of its own program.
const role = "REBOOT_TEST_ROLE"

// The test has the privileges of deploy/signal: the PID namespace of PID 1 and
// its user, and no capability. PID 1 is a process of this test that waits for
// the signal, as systemd does.
func TestASignalReachesPID1WithoutACapability(t *testing.T) {
	g := gomega.NewWithT(t)
	switch os.Getenv(role) {
	case "init":
		g.Expect(os.Getpid()).To(gomega.Equal(1))
		beInit(t, g)
		return
	case "agent":
		beAgent(t, g)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), role+"=init")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skipf("this kernel lets no user make namespaces, so there is no second PID 1 to send a signal: %v", err)
	}
	g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", out)
	g.Expect(string(out)).To(gomega.ContainSubstring("PID 1 got signal 39"))
}

// beInit starts the agent, without a capability, and waits for its signal.
func beInit(t *testing.T, g *gomega.WithT) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.Signal(machine.SystemdReboot))
	runtime.LockOSThread() // A program that this thread starts has no more capabilities than it may pass on.
	const drop = 24        // PR_CAPBSET_DROP
	// until the kernel has no capability with that number
	for capability, failed := uintptr(0), syscall.Errno(0); failed != syscall.EINVAL; capability++ {
		_, _, failed = syscall.RawSyscall(syscall.SYS_PRCTL, drop, capability, 0)
		g.Expect(failed).To(gomega.BeElementOf(syscall.Errno(0), syscall.EINVAL))
	}
	agent := exec.CommandContext(t.Context(), os.Args[0], os.Args[1:]...)
	agent.Env = append(os.Environ(), role+"=agent")
	out, err := agent.CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", out)
	g.Eventually(got, 10*time.Second).Should(gomega.Receive())
	t.Logf("PID 1 got signal %d", machine.SystemdReboot)
}

// beAgent sends the signal.
func beAgent(t *testing.T, g *gomega.WithT) {
	status, err := os.ReadFile("/proc/thread-self/status")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	_, effective, _ := strings.Cut(string(status), "CapEff:\t")
	g.Expect(effective).To(gomega.HavePrefix("0000000000000000\n"))
	g.Expect((&machine.Signal{Number: machine.SystemdReboot}).Reboot(t.Context())).To(gomega.Succeed())
}
