package supervisor_test

import (
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

var _ = Describe("The ports", func() {
	It("are all different and below those of outgoing connections", func() {
		ports, err := supervisor.ChoosePorts(0)
		Expect(err).NotTo(HaveOccurred())
		seen := map[int]bool{}
		for _, p := range ports {
			Expect(p).To(And(BeNumerically(">=", 20000), BeNumerically("<", 32000)))
			seen[p] = true
		}
		Expect(seen).To(HaveLen(4))
	})

	It("have the API server's port that is asked for", func() {
		ports, err := supervisor.ChoosePorts(0)
		Expect(err).NotTo(HaveOccurred())
		again, err := supervisor.ChoosePorts(ports[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(again[0]).To(Equal(ports[0]))
	})

	It("are refused when a program has the one that is asked for", func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(l.Close)
		_, err = supervisor.ChoosePorts(l.Addr().(*net.TCPAddr).Port)
		Expect(err).To(MatchError(And(ContainSubstring("is busy"), ContainSubstring("choose a different one"))))
	})
})
