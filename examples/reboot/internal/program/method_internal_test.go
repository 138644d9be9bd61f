package program

import (
	"flag"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
)

func TestTheMachineIsRebootedAsTheFlagsSay(t *testing.T) {
	g := NewWithT(t)
	chosen := func(args ...string) machine.Method {
		var m method
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		m.flags(fs)
		g.Expect(fs.Parse(args)).To(Succeed())
		by, err := m.chosen()
		g.Expect(err).NotTo(HaveOccurred())
		return by
	}
	g.Expect(chosen()).To(Equal(&machine.Logind{Socket: machine.DefaultSocket}))
	g.Expect(chosen("--dbus-socket=/bus")).To(Equal(&machine.Logind{Socket: "/bus"}))
	g.Expect(chosen("--reboot-method=signal")).To(Equal(&machine.Signal{Number: machine.SystemdReboot}))
	g.Expect(chosen("--reboot-method=signal", "--reboot-signal=15")).To(Equal(&machine.Signal{Number: 15}))
	g.Expect(chosen("--reboot-method=command")).To(Equal(machine.Command(machine.DefaultCommand)))
	g.Expect(chosen("--reboot-method=command", "--reboot-command=a b")).To(Equal(machine.Command("a b")))
}
