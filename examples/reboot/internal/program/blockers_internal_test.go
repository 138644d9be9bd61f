package program

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
)

func TestRebootsAreBlockedByWhatIsConfigured(t *testing.T) {
	g := NewWithT(t)
	none, err := blockers{command: "  "}.gate()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(none).To(BeNil())
	for command, blocked := range map[string]types.GomegaMatcher{
		"true": BeEmpty(), "ls /does/not/exist": Not(BeEmpty()),
	} {
		gate, err := blockers{command: command}.gate()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(gate.Blocked(t.Context())).To(blocked, command)
	}
	gate, err := blockers{url: "http://127.0.0.1:1", query: "ALERTS"}.gate()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gate.Blocked(t.Context())).NotTo(BeEmpty(), "without an answer nothing begins")
}
