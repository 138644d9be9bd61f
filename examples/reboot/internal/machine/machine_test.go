package machine_test

import (
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

var _ = Describe("Host", func() {
	var host *machine.Host
	var asked string

	BeforeEach(func() {
		dir := GinkgoT().TempDir()
		asked = filepath.Join(dir, "asked")
		host = &machine.Host{BootIDFile: filepath.Join(dir, "boot_id"), Method: machine.Command("touch " + asked)}
		Expect(os.WriteFile(host.BootIDFile, []byte("b1\n"), 0o600)).To(Succeed())
	})

	It("reads the boot id", func(ctx SpecContext) {
		Expect(host.BootID(ctx)).To(Equal("b1"))
	})

	It("runs the command", func(ctx SpecContext) {
		Expect(host.Reboot(ctx, "b1")).To(Succeed())
		Expect(asked).To(BeAnExistingFile())
	})

	It("does not reboot another boot", func(ctx SpecContext) {
		Expect(host.Reboot(ctx, "b0")).To(MatchError(machine.ErrOtherBoot))
		Expect(asked).NotTo(BeAnExistingFile())
	})

	It("tells what a command that fails has printed", func(ctx SpecContext) {
		host.Method = machine.Command("ls /does/not/exist")
		Expect(host.Reboot(ctx, "b1")).To(MatchError(And(
			HavePrefix(`rebooting with "ls /does/not/exist": exit status`), ContainSubstring("No such file"))))
	})

	It("refuses an empty command", func(ctx SpecContext) {
		host.Method = machine.Command("  ")
		Expect(host.Reboot(ctx, "b1")).To(MatchError(ContainSubstring("is empty")))
	})

	It("does not take an empty file for a boot id", func(ctx SpecContext) {
		Expect(os.WriteFile(host.BootIDFile, []byte("\n"), 0o600)).To(Succeed())
		_, err := host.BootID(ctx)
		Expect(err).To(MatchError(ContainSubstring("is empty")))
	})

	It("names the file that is missing", func(ctx SpecContext) {
		host.BootIDFile = "/does/not/exist"
		Expect(host.Reboot(ctx, "b1")).To(MatchError(And(HavePrefix("reading the boot id"), ContainSubstring("/does/not/exist"))))
	})
})

var _ = Describe("Simulated", func() {
	It("goes off, and comes back in another boot", func(ctx SpecContext) {
		var ended []string
		m := machine.NewSimulated("m", func(bootID string) { ended = append(ended, bootID) })
		first, err := m.BootID(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Reboot(ctx, first)).To(Succeed())
		Expect(m.Off()).To(BeTrue())
		_, err = m.BootID(ctx)
		Expect(err).To(HaveOccurred())
		Expect(m.Reboot(ctx, first)).NotTo(Succeed())
		second := m.PowerOn()
		Expect(second).NotTo(Equal(first))
		Expect(m.BootID(ctx)).To(Equal(second))
		Expect(m.Reboot(ctx, first)).To(MatchError(machine.ErrOtherBoot))
		Expect(ended).To(Equal([]string{first}))
	})

	It("stays on when it refuses", func(ctx SpecContext) {
		m := machine.NewSimulated("m", nil)
		refused := errors.New("no")
		m.Refuse(refused)
		Expect(m.Reboot(ctx, m.PowerOn())).To(MatchError(refused))
		Expect(m.Off()).To(BeFalse())
		m.Refuse(nil)
		Expect(m.Reboot(ctx, m.PowerOn())).To(Succeed())
	})

	It("may crash by itself", func(ctx SpecContext) {
		m := machine.NewSimulated("m", nil)
		m.Crash()
		Expect(m.Off()).To(BeTrue())
		Expect(m.PowerOn()).To(Equal("m-boot-2"))
	})
})
