//go:build e2e

package trial_test

import (
	"bytes"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/plugin"
)

var _ = Describe("kubectl reboot", func() {
	kubectl := func(ctx SpecContext, args ...string) outcome {
		return execute(ctx, environment(), "kubectl-reboot", append(args, "--kubeconfig", cluster.Kubeconfig())...)
	}

	It("asks for a reboot, says what holds it up, and waits for its end", func(ctx SpecContext) {
		createNode(ctx, "plugged", nil)
		startController(ctx)
		m := startAgent(ctx, "plugged")
		Expect(createGroup(ctx, "plugged", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("plugged"),
		})).To(Succeed())
		Expect(kubectl(ctx, "pause", "--group", "plugged")).To(Equal(outcome{0, "rebootgroup/plugged: paused\n"}))
		Expect(kubectl(ctx, "request", "plugged", "--request", "kernel")).To(Equal(outcome{0, "node/plugged: a reboot is requested: kernel\n"}))
		Eventually(func() string { return kubectl(ctx, "why", "plugged").text }).WithTimeout(patience).Should(And(
			HavePrefix("plugged: Requested\n"), ContainSubstring(`a reboot is requested: "kernel"`),
			ContainSubstring("number 1 of 1 in the queue of RebootGroup plugged"),
			ContainSubstring("the group waits (Paused): oldest first: plugged; the group is paused: set spec.paused to false")))
		Expect(kubectl(ctx, "status", "plugged").text).To(MatchRegexp(`(?m)^plugged +plugged +Requested +kernel +-$`))

		By("waiting, with progress")
		var out bytes.Buffer
		p := &plugin.Plugin{Nodes: core.CoreV1().Nodes(), Groups: groups, Out: &out, Poll: 10 * time.Millisecond}
		asked, err := p.Request(ctx, "kernel", "plugged")
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- p.Wait(ctx, asked...) }()
		Expect(kubectl(ctx, "resume", "--group", "plugged").code).To(BeZero())
		Eventually(m.Off).WithContext(ctx).WithTimeout(patience).Should(BeTrue())
		Consistently(ended).WithTimeout(quiet).ShouldNot(Receive())
		wake(ctx, m, "plugged")
		Eventually(ended).WithContext(ctx).WithTimeout(patience).Should(Receive(Succeed()))
		Expect(out.String()).To(MatchRegexp(`(?s)node/plugged: Requested\n.*node/plugged: Rebooting\n.*node/plugged: Done\n$`))
	})

	It("names what does not exist", func(ctx SpecContext) {
		for _, args := range [][]string{{"why", "nobody"}, {"status", "nobody"}, {"request", "nobody"}, {"pause", "nobody"}} {
			end := kubectl(ctx, args...)
			Expect(end.code).To(Equal(1), end.text)
			Expect(end.text).To(ContainSubstring(`node "nobody"`))
		}
		end := kubectl(ctx, "pause")
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring("specify nodes, or a group"))
	})

	It("pauses a node, and lets it go again", func(ctx SpecContext) {
		createNode(ctx, "held", nil)
		Expect(kubectl(ctx, "pause", "held").text).To(Equal("node/held: paused\n"))
		Expect(state("held")(ctx).Paused).To(BeTrue())
		Expect(kubectl(ctx, "resume", "held").text).To(Equal("node/held: resumed\n"))
		n, err := core.CoreV1().Nodes().Get(ctx, "held", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(n.Annotations).NotTo(HaveKey("reboot.homeostat.dev/reboot-paused"))
	})
})
