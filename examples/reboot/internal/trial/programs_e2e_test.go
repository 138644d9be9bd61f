//go:build e2e

package trial_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// agentRules are the permissions of the agent, as the README has them.
func agentRules() []rbacv1.PolicyRule {
	return append(sharedRules(),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}})
}

// sharedRules are the permissions of both.
func sharedRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

// controllerRules are the permissions of the controller, as the README has
// them.
func controllerRules() []rbacv1.PolicyRule {
	group := []string{"reboot.homeostat.dev"}
	return append(sharedRules(),
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"rebootgroups"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"rebootgroups/status"}, Verbs: []string{"patch"}},
	)
}

// leaseRules are the rules for a controller with --leader-elect in the
// namespace of its Lease, as the README shows them.
func leaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
	}
}

var _ = Describe("the programs", func() {
	DescribeTable("say what is wrong at the start, and end",
		func(ctx SpecContext, program string, args []string, code int, texts ...string) {
			end := execute(ctx, environment(), program, args...)
			Expect(end.code).To(Equal(code), end.text)
			for _, text := range texts {
				Expect(end.text).To(ContainSubstring(text))
			}
		},
		Entry("no cluster", "controller", nil, 1, "this process does not run in a Pod", "set --kubeconfig or KUBECONFIG"),
		Entry("no such kubeconfig", "agent", []string{"--node", "n", "--kubeconfig", "/does/not/exist"}, 1,
			"reading the kubeconfig", "/does/not/exist"),
		Entry("an unknown flag", "agent", []string{"--nod", "n"}, 2, "-nod"),
		Entry("a stray argument", "controller", []string{"please"}, 2, `unexpected argument "please"`),
		Entry("an unknown log format", "controller", []string{"--log-format", "xml"}, 2, "--log-format", "text or json"),
	)

	It("name the server that does not answer", func(ctx SpecContext) {
		file := kubeconfigOf(&rest.Config{Host: "https://127.0.0.1:1"})
		end := execute(ctx, environment(), "controller", "--kubeconfig", file, "--startup-timeout", "1s")
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring("reaching the API server at https://127.0.0.1:1"))
		Expect(end.text).To(ContainSubstring("check that it runs"))
	})

	It("name the node that does not exist", func(ctx SpecContext) {
		end := execute(ctx, environment(), "agent", "--kubeconfig", cluster.Kubeconfig(), "--node", "nobody")
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring(`finding node "nobody"`))
		Expect(end.text).To(ContainSubstring("set --node or NODE_NAME"))
	})

	It("name a method that does not exist", func(ctx SpecContext) {
		end := execute(ctx, environment(), "agent", "--kubeconfig", cluster.Kubeconfig(), "--node", "n", "--reboot-method", "axe")
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring(`--reboot-method is "axe": set logind, signal or command`))
	})

	It("want URL and query together", func(ctx SpecContext) {
		end := execute(ctx, environment(), "controller", "--kubeconfig", cluster.Kubeconfig(), "--leader-elect=false", "--blocking-query", "up")
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring("set both the URL of Prometheus and a query (see --prometheus-url and --blocking-query)"))
	})

	It("ask for the node's name", func(ctx SpecContext) {
		end := execute(ctx, environment(), "agent", "--kubeconfig", cluster.Kubeconfig())
		Expect(end.code).To(Equal(1), end.text)
		Expect(end.text).To(ContainSubstring("Options.Node is empty"))
	})

	DescribeTable("name the permission that is missing",
		func(ctx SpecContext, program, flag string, rules []rbacv1.PolicyRule, missing string) {
			namespace, err := cluster.Namespace(ctx, "trial")
			Expect(err).NotTo(HaveOccurred())
			config, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace, Name: "operator", ClusterRules: rules})
			Expect(err).NotTo(HaveOccurred())
			end := execute(ctx, environment(), program, "--kubeconfig", kubeconfigOf(config), flag)
			Expect(end.code).To(Equal(1), end.text)
			Expect(end.text).To(ContainSubstring("missing permission to " + missing + ": grant it"))
		},
		Entry("agent", "agent", "--node=n", []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		}, "patch nodes"),
		Entry("controller", "controller", "--leader-elect=false", controllerRules()[:3],
			"patch rebootgroups.reboot.homeostat.dev/status"),
		Entry("controller of which one works", "controller", "--leader-elect", controllerRules(),
			"update leases.coordination.k8s.io reboot-controller in namespace default"),
	)
})
