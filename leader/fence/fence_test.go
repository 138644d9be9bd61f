package fence_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader/fence"
)

func TestWrongOptionsAreNamed(t *testing.T) {
	g := NewWithT(t)
	_, err := fence.YAML(fence.Options{Namespace: `a"b`, Lease: "l", ServiceAccount: "S", Resources: []string{
		"pods", "*", "pods/", "Jobs", "jobs,pods", "deployments.*", "pods/a/b",
	}})
	g.Expect(err).To(MatchError(And(
		HavePrefix(`making the policy of lease "a\"b/l": `),
		ContainSubstring(`Options.Namespace is "a\"b": `),
		ContainSubstring(`Options.ServiceAccount is "S": `),
		ContainSubstring(`Options.Resources has "*": must be like pods, deployments.apps or pods/status`),
		ContainSubstring(`Options.Resources has "pods/": must be`),
		ContainSubstring(`Options.Resources has "Jobs": must be`),
		ContainSubstring(`Options.Resources has "jobs,pods": must be`),
		ContainSubstring(`Options.Resources has "deployments.*": must be`),
		ContainSubstring(`Options.Resources has "pods/a/b": must be`),
		Not(ContainSubstring(`has "pods": `)),
		Not(ContainSubstring("Options.Lease")))))
	long := strings.Repeat("l", 64)
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: long, ServiceAccount: "s", Resources: []string{"pods"}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: long, ServiceAccount: "s", Resources: []string{"pods"}, Shards: true})
	g.Expect(err).To(MatchError(ContainSubstring("a label of the members of shards: must be no more than 63")))
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: "l", ServiceAccount: "s"})
	g.Expect(err).To(MatchError(ContainSubstring("Options.Resources is empty: name what the replicas write")))
}
