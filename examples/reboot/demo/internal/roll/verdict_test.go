package roll_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/roll"
)

func TestAVerdictIsGoodWithoutFaults(t *testing.T) {
	g := gomega.NewWithT(t)
	v := roll.Verdict{Nodes: 12, Rebooted: 12, MostSlots: 2, Max: 2, Took: 24 * time.Second, Events: 147, Killed: []string{"controller-1"}}
	var out strings.Builder
	g.Expect(v.Write(&out)).To(gomega.Succeed())
	g.Expect(v.Good()).To(gomega.BeTrue())
	g.Expect(out.String()).To(gomega.Equal("\nVERDICT PASS: 12 of 12 nodes rebooted once, in 24s, with at most 2 of 2 slots in use\n" +
		"  checked I1, I2, I3, I4, I5 on every one of 147 watch events\n  killed on the way (SIGKILL): controller-1\n"))
}

func TestAVerdictNamesEveryFault(t *testing.T) {
	g := gomega.NewWithT(t)
	v := roll.Verdict{Nodes: 12, Rebooted: 11, Faults: []string{"I2 at resourceVersion 7: node a", "node-03 was left cordoned"}}
	var out strings.Builder
	g.Expect(v.Write(&out)).To(gomega.Succeed())
	g.Expect(v.Good()).To(gomega.BeFalse())
	g.Expect(out.String()).To(gomega.And(gomega.HavePrefix("\nVERDICT FAIL: 11 of 12"),
		gomega.ContainSubstring("FAULT I2 at resourceVersion 7: node a\n"), gomega.ContainSubstring("FAULT node-03 was left cordoned\n")))
}

func TestARollNeedsToKnowItsCluster(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := roll.Run(t.Context(), &roll.Options{Nodes: -1})
	g.Expect(err).To(gomega.MatchError(gomega.And(
		gomega.ContainSubstring("Options.Kubeconfig is empty"),
		gomega.ContainSubstring("Options.Program is empty"), gomega.ContainSubstring("Options.Nodes is -1: must be at least 1"))))
}
