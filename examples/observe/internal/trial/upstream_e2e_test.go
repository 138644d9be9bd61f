//go:build e2e

package trial_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// The assertions of oc's own tests about oc observe: those of openshift/origin,
// test/extended/cli/observe.go, and the further ones of the older
// test/cmd/observe.sh. Both look at standard output and standard error
// together.
var _ = DescribeTable("Upstream asserts", func(_ SpecContext, succeeds bool, says string, args ...string) {
	c := command(cluster.Kubeconfig(), binary, args...)
	c.Env = append(c.Env, "MYENV=should_be_passed")
	s := started(c)
	Eventually(s, 2*time.Minute).Should(gexec.Exit())
	if succeeds {
		Expect(s.ExitCode()).To(BeZero())
	} else {
		Expect(s.ExitCode()).NotTo(BeZero())
	}
	Expect(out(s) + logs(s)).To(MatchRegexp(says))
},
	Entry("1", false, "you must specify at least one argument containing the resource to observe"),
	Entry("2", true, "Sync ended|Nothing to sync", "serviceaccounts", "--once"),
	Entry("3", true, "Sync ended|Nothing to sync, exiting immediately", "daemonsets", "--once"),
	Entry("4", true, "default kubernetes", "services", "--once", "--all-namespaces"),
	Entry("5", true, `observe_counts\{type="Sync"\}`, "services", "--once", "--all-namespaces", "--print-metrics-on-exit"),
	Entry("6", false, "--delete and --names must both be specified", "services", "--once", "--names", "echo"),
	Entry("7", true, `Shutting down after 1s \.\.\.`, "services", "--exit-after=1s"),
	Entry("8", true, `observe_counts\{type="Sync"\}`, "services", "--exit-after=3s", "--all-namespaces", "--print-metrics-on-exit"),
	Entry("9", true, "remove default notfound", "services", "--exit-after=3s", "--all-namespaces",
		"--names", "echo", "--names", "default/notfound", "--delete", "echo", "--delete", "remove"),
	Entry("10", false, "reached maximum error limit of 1, exiting", "services", "--exit-after=1m", "--all-namespaces",
		"--maximum-errors=1", "--", "/bin/sh", "-c", "exit 1"),
	Entry("11", false, "retrying command: exit status 2", "services", "--exit-after=1m", "--all-namespaces",
		"--retry-on-exit-code=2", "--maximum-errors=1", "--loglevel=4", "--", "/bin/sh", "-c", "exit 2"),
	Entry("12", true, `10\.0\.0\.1\b`, "services", "--once", "--all-namespaces", "--template='{ .spec.clusterIP }'"),
	Entry("13", true, `10\.0\.0\.1\b`, "services", "--once", "--all-namespaces", "--template='{{ .spec.clusterIP }}'", "--output=go-template"),
	Entry("14", true, "badkey", "services", "--once", "--all-namespaces", "--template='bad{ .missingkey }key'"),
	Entry("15", false, "missingkey is not found", "services", "--once", "--all-namespaces", "--template='bad{ .missingkey }key'",
		"--allow-missing-template-keys=false"),
	Entry("16", true, "default kubernetes", "services", "--once", "--all-namespaces", "--template='{{ .unknown }}'", "--output=go-template"),
	Entry("17", true, "badkey", "services", "--once", "--all-namespaces", `--template='bad{{ or (.unknown) "" }}key'`, "--output=go-template"),
	Entry("18", false, "map has no entry for key", "services", "--once", "--all-namespaces", "--template='bad{{ .unknown }}key'",
		"--output=go-template", "--allow-missing-template-keys=false"),
	Entry("19", true, "Sync should_be_passed", "services", "--once", "--all-namespaces", "--type-env-var=EVENT",
		"--", "/bin/sh", "-c", "echo $EVENT $MYENV"),
	// The older ones: -a, its deprecated names, and empty values.
	Entry("20", true, `10\.0\.0\.1\b`, "services", "--once", "--all-namespaces", "-a", "{{ .spec.clusterIP }}", "--output=gotemplate"),
	Entry("21", true, `""`, "services", "--once", "--all-namespaces", "-a", "{{ .unknown }}", "--output=gotemplate"),
)

var _ = Describe("Upstream asserts", func() {
	It("22: clusteroperators, on an address that is asked for", func(ctx SpecContext) {
		Expect(cluster.Apply(ctx, clusterOperators, clusterOperator)).To(Succeed())
		s := started(command(cluster.Kubeconfig(), binary, "clusteroperators", "--once", "--wait", "--listen-addr="+freeAddress()))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(ContainSubstring("kube-apiserver"))
	}, SpecTimeout(2*time.Minute))
})

const clusterOperators = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusteroperators.config.openshift.io}
spec:
  group: config.openshift.io
  names: {kind: ClusterOperator, plural: clusteroperators, singular: clusteroperator}
  scope: Cluster
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const clusterOperator = `
apiVersion: config.openshift.io/v1
kind: ClusterOperator
metadata: {name: kube-apiserver}
`
