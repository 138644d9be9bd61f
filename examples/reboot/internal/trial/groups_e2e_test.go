//go:build e2e

package trial_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// quiet is how long nothing may happen to believe that nothing will.
const quiet = 500 * time.Millisecond

var _ = Describe("a RebootGroup", func() {
	DescribeTable("is refused by the server when its limit allows nothing, or makes no sense",
		func(ctx SpecContext, limit intstr.IntOrString) {
			err := createGroup(ctx, "refused", api.RebootGroupSpec{MaxUnavailable: limit})
			Expect(err).To(MatchError(And(ContainSubstring(`"refused"`), ContainSubstring("spec.maxUnavailable"),
				ContainSubstring("must be a number of at least 1 or a percentage"), ContainSubstring("set paused to true"))))
		},
		Entry("0", intstr.FromInt32(0)), Entry("negative", intstr.FromInt32(-3)), Entry("0%", intstr.FromString("0%")),
		Entry("more than all", intstr.FromString("101%")), Entry("words", intstr.FromString("two")),
	)

	It("is refused by the server when no program could read its limit", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, `{apiVersion: reboot.homeostat.dev/v1alpha1, kind: RebootGroup, metadata: {name: huge},
			spec: {maxUnavailable: 3000000000}}`)).To(MatchError(ContainSubstring("must be a number of at least 1 or a percentage")))
	})

	It("says in a condition that its selector is broken, and reboots nothing", func(ctx SpecContext) {
		startController(ctx)
		createNode(ctx, "broken-1", nil)
		Expect(createGroup(ctx, "broken", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1),
			NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "trial", Operator: metav1.LabelSelectorOpIn},
			}},
		})).To(Succeed())
		Eventually(conditionOf("broken", rules.ConditionValid)).WithContext(ctx).WithTimeout(patience).Should(And(
			HavePrefix("False InvalidSpec"), ContainSubstring(`RebootGroup "broken": spec.nodeSelector`), ContainSubstring("correct it")))
	})

	It("says in a condition which annotation cannot be read, and reboots nothing", func(ctx SpecContext) {
		startController(ctx)
		startAgent(ctx, "garbled")
		Expect(createGroup(ctx, "garbled", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("garbled"),
		})).To(Succeed())
		createNode(ctx, "garbled", map[string]string{protocol.LastReboot: "yesterday", protocol.Needed: "r"})
		Eventually(conditionOf("garbled", rules.ConditionReadable)).WithContext(ctx).WithTimeout(patience).Should(And(
			HavePrefix("False InvalidAnnotation"), ContainSubstring(protocol.LastReboot), ContainSubstring(`"garbled"`),
			ContainSubstring("remove the annotation")))
		Eventually(conditionOf("garbled", rules.ConditionWaiting)).WithContext(ctx).WithTimeout(patience).Should(
			And(HavePrefix("True NodesHeldBack"), ContainSubstring("garbled: it has an annotation that cannot be read")))
		annotate(ctx, "garbled", protocol.Now, "at once")
		Eventually(reasons("garbled")).WithContext(ctx).WithTimeout(patience).Should(ContainElement("InvalidAnnotation"))
		Consistently(state("garbled")).WithContext(ctx).WithTimeout(quiet).Should(And(
			HaveField("InProgress", BeNil()), HaveField("Needed", HaveValue(Equal("r")))))

		By("going on once the values are removed")
		annotate(ctx, "garbled", protocol.Now, nil)
		annotate(ctx, "garbled", protocol.LastReboot, nil)
		Eventually(state("garbled")).WithContext(ctx).WithTimeout(patience).Should(HaveField("InProgress", Not(BeNil())))
	})

	It("reboots no node that another group selects, says so in both, and in kubectl reboot", func(ctx SpecContext) {
		startController(ctx)
		for _, name := range []string{"rival-a", "rival-b"} {
			Expect(createGroup(ctx, name, api.RebootGroupSpec{
				MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("contested"),
			})).To(Succeed())
		}
		createNode(ctx, "contested", map[string]string{protocol.Needed: "r"})
		for _, name := range []string{"rival-a", "rival-b"} {
			Eventually(conditionOf(name, rules.ConditionOverlap)).WithContext(ctx).WithTimeout(patience).Should(And(
				HavePrefix("True SelectedByOthers"), HaveSuffix("contested (rival-a, rival-b)")))
			Eventually(conditionOf(name, rules.ConditionWaiting)).WithContext(ctx).WithTimeout(patience).Should(And(
				HavePrefix("True NodesHeldBack oldest first: contested;"), ContainSubstring("the RebootGroups rival-a and rival-b select it")))
		}
		kubectl := func(args ...string) string {
			return execute(ctx, environment(), "kubectl-reboot", append(args, "--kubeconfig", cluster.Kubeconfig())...).text
		}
		Expect(kubectl("status", "contested")).To(MatchRegexp(`(?m)^contested +rival-a,rival-b +Overlap +r +-$`))
		Expect(kubectl("why", "contested")).To(And(HavePrefix("contested: Overlap\n"),
			ContainSubstring("the RebootGroups rival-a and rival-b select it"), ContainSubstring("narrow a nodeSelector")))
		Consistently(state("contested")).WithContext(ctx).WithTimeout(quiet).Should(HaveField("Now", BeNil()))

		By("rebooting it once only one selects it")
		Expect(groups.Delete(ctx, "rival-a", metav1.DeleteOptions{})).To(Succeed())
		Eventually(slotsOf("rival-b")).WithContext(ctx).WithTimeout(patience).Should(ConsistOf(HaveField("Node", "contested")))
		Eventually(state("contested")).WithContext(ctx).WithTimeout(patience).Should(HaveField("Now", Not(BeNil())))
	})

	It("is made when a node that no group selects requests a reboot, for one node at a time", func(ctx SpecContext) {
		DeferCleanup(removeGroup, api.DefaultName)
		startController(ctx)
		createNode(ctx, "lonely", map[string]string{protocol.Needed: ""})
		Eventually(func(ctx SpecContext) (*api.RebootGroup, error) {
			return groups.Get(ctx, api.DefaultName, metav1.GetOptions{})
		}).WithContext(ctx).WithTimeout(patience).Should(And(
			HaveField("Spec.MaxUnavailable", intstr.FromInt32(1)),
			HaveField("Status.Slots", ConsistOf(HaveField("Node", "lonely")))))
		Eventually(state("lonely")).WithContext(ctx).WithTimeout(patience).Should(HaveField("Now", HaveValue(
			HaveField("Request", protocol.Request{Request: "", Epoch: 1}))))
	})

	It("revokes and gives back the slot when it is paused, and loses nothing", func(ctx SpecContext) {
		startController(ctx)
		Expect(createGroup(ctx, "paused", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("paused"),
		})).To(Succeed())
		createNode(ctx, "paused", map[string]string{protocol.Needed: "r"})
		Eventually(state("paused")).WithContext(ctx).WithTimeout(patience).Should(HaveField("Now", Not(BeNil())))
		pauseGroup(ctx, "paused", true)
		Eventually(func(ctx SpecContext) ([]api.Slot, error) {
			g, err := groups.Get(ctx, "paused", metav1.GetOptions{})
			return g.Status.Slots, err
		}).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
		Expect(state("paused")(ctx)).To(And(HaveField("Now", BeNil()), HaveField("Needed", HaveValue(Equal("r")))))
		Eventually(conditionOf("paused", rules.ConditionWaiting)).WithContext(ctx).WithTimeout(patience).Should(
			And(HavePrefix("True Paused"), ContainSubstring("set spec.paused to false")))
		pauseGroup(ctx, "paused", false)
		Eventually(state("paused")).WithContext(ctx).WithTimeout(patience).Should(HaveField("Now", HaveValue(HaveField("Epoch", BeEquivalentTo(2)))))
	})
})
