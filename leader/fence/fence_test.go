package fence_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader/fence"
)

func TestWrongOptionsAreNamed(t *testing.T) {
	g := NewWithT(t)
	_, err := fence.YAML(fence.Options{Namespace: `a"b`, Lease: "l", ServiceAccount: "S", Resources: []string{"pods", "*", "pods/"}})
	g.Expect(err).To(MatchError(And(
		HavePrefix(`making the policy of lease "a\"b/l": `),
		ContainSubstring(`Options.Namespace is "a\"b": `),
		ContainSubstring(`Options.ServiceAccount is "S": `),
		ContainSubstring(`Options.Resources has "*": must be like pods, deployments.apps or pods/status`),
		ContainSubstring(`Options.Resources has "pods/": must be`),
		Not(ContainSubstring("Options.Lease")))))
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: "l", ServiceAccount: "s"})
	g.Expect(err).To(MatchError(ContainSubstring("Options.Resources is empty: name what the replicas write")))
}
