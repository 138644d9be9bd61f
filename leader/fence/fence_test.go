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
		ContainSubstring(`Options.Resources[1] is "*": must be like pods, deployments.apps or pods/status`),
		ContainSubstring(`Options.Resources[2] is "pods/": must be`),
		ContainSubstring(`Options.Resources[3] is "Jobs": must be`),
		ContainSubstring(`Options.Resources[4] is "jobs,pods": must be`),
		ContainSubstring(`Options.Resources[5] is "deployments.*": must be`),
		ContainSubstring(`Options.Resources[6] is "pods/a/b": must be`),
		Not(ContainSubstring(`is "pods": `)),
		Not(ContainSubstring("Options.Lease")))))
	long := strings.Repeat("l", 64)
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: long, ServiceAccount: "s", Resources: []string{"pods"}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: long, ServiceAccount: "s", Resources: []string{"pods"}, Shards: true})
	g.Expect(err).To(MatchError(ContainSubstring("must be a valid label value, because Shards is set: must be no more than 63")))
	_, err = fence.YAML(fence.Options{Namespace: "shop", Lease: "l", ServiceAccount: "s"})
	g.Expect(err).To(MatchError(ContainSubstring("Options.Resources is []: must list the resources that the replicas write")))
}
