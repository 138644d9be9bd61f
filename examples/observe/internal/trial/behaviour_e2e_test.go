//go:build e2e

package trial_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// line is a progress line with that end.
func line(kind, end string) string {
	return `(?m)^# \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d) ` + kind + ` \d+\t` + end + `$`
}

const kubernetes1 = "default kubernetes" // the Service that is always there

var _ = DescribeTable("A single pass", func(_ SpecContext, code int, args []string, stdout, stderr string) {
	s := observed(code, append([]string{"--once"}, args...)...)
	Expect(out(s)).To(MatchRegexp(stdout))
	Expect(logs(s)).To(MatchRegexp(stderr))
	if code == 1 {
		Expect(strings.Count(logs(s), "\n")).To(Equal(1), "one line")
		Expect(out(s)).To(BeEmpty())
	}
},
	// RESOURCE
	Entry("plural", 0, []string{"services"}, line("Sync", kubernetes1), "1 keys, 1 runs, 0 failures"),
	Entry("singular", 0, []string{"service"}, line("Sync", kubernetes1), ""),
	Entry("kind", 0, []string{"Service"}, line("Sync", kubernetes1), ""),
	Entry("short name", 0, []string{"svc"}, line("Sync", kubernetes1), ""),
	Entry("core version", 0, []string{"services.v1."}, line("Sync", kubernetes1), ""),
	Entry("name.group", 0, []string{"clusterroles.rbac.authorization.k8s.io", "--field-selector=metadata.name=admin"},
		line("Sync", "admin"), "1 keys"),
	Entry("name.version.group", 0, []string{"flowschemas.v1.flowcontrol.apiserver.k8s.io"}, line("Sync", "exempt"), ""),
	Entry("cluster-scoped", 0, []string{"namespaces"}, line("Sync", "default"), ""),
	Entry("nothing there", 0, []string{"pods"}, "^$", "Nothing to sync, exiting immediately"),
	Entry("a near miss", 1, []string{"serivces"}, "", `^error: the server has no resource "serivces"; did you mean services\?\n$`),
	Entry("no CRD yet", 1, []string{"widgets.example.com"}, "", "--wait"),
	Entry("no CRD yet, of a name that there is elsewhere", 1, []string{"jobs.example.com"}, "", `did you mean jobs\?.*--wait`),
	Entry("not to be watched", 1, []string{"tokenreviews"}, "", "cannot be observed"),
	// selection
	Entry("all namespaces", 0, []string{"services", "-A", "-l", "provider=kubernetes"}, line("Sync", kubernetes1), ""),
	Entry("another namespace", 0, []string{"services", "-n", "kube-public"}, "^$", "Nothing to sync"),
	Entry("labels", 0, []string{"services", "-l", "component=apiserver"}, line("Sync", kubernetes1), ""),
	Entry("no such labels", 0, []string{"services", "-l", "component=none"}, "^$", ""),
	Entry("fields", 0, []string{"ns", "--field-selector", "metadata.name=kube-system"}, line("Sync", "kube-system"), "1 keys"),
	Entry("fields the server does not know", 1, []string{"services", "--field-selector", "a=b"}, "", "field label"),
	// arguments
	Entry("a template", 0, []string{"svc", "--template", "{.spec.clusterIP}"}, line("Sync", kubernetes1+` 10\.\d+\.\d+\.1`), ""),
	Entry("templates", 0, []string{"svc", "--template", "{.metadata.name}", "--template", "x y", "--template", ""},
		line("Sync", kubernetes1+` kubernetes "x y" ""`), "has no {...}"),
	Entry("a missing field", 0, []string{"svc", "--template", "bad{.metadata.annotations.unset}key"}, "badkey", ""),
	Entry("a missing field, strictly", 2, []string{"svc", "--template", "bad{.metadata.annotations.unset}key", "--strict-templates"},
		"Sync started", "annotations is not found"),
	Entry("the same", 2, []string{"svc", "--template", "{.metadata.annotations.unset}", "--allow-missing-template-keys=false"},
		"Sync started", "annotations is not found"),
	Entry("a Go template", 0, []string{"svc", "-o", "go-template", "--template", "{{.spec.type}}{{.unknown}}"}, "ClusterIP\n", ""),
	Entry("a Go template in -o", 0, []string{"svc", "-o", "go-template={{.spec.type}}"}, "ClusterIP\n", ""),
	Entry("no phantom argument", 0, []string{"svc", "--", "sh", "-c", "echo $#", "sh"}, `(?m)^2$`, ""),
	Entry("several --argument, which make one", 0, []string{"svc", "-a", "{.spec.type}", "--argument", "{.metadata.name}"},
		line("Sync", kubernetes1+` "ClusterIP kubernetes"`), "several --argument flags make one"),
	Entry("JSON", 0, []string{"svc", "-o", "jsonpath-as-json", "--template", "{.spec.ports[*].port}"}, `"\[\\n    443\\n\]\\n"`, ""),
	// The input of a command.
	Entry("a command", 0, []string{"svc", "--template", "{.spec.clusterIP}", "--", "echo", "hello  $HOME"},
		line("Sync", `echo "hello  \$HOME" default kubernetes 10\.\S+`)+`\nhello  \$HOME default kubernetes 10\.`, ""),
	Entry("variables", 0, []string{
		"svc", "--type-env-var=TYPE", "--identity-env", "--",
		"sh", "-c", `echo "$TYPE/$OBSERVE_NAMESPACE/$OBSERVE_NAME/${#OBSERVE_UID}/$OBSERVE_RESOURCE_VERSION"`,
	},
		`(?m)^Sync/default/kubernetes/36/\d+$`, ""),
	Entry("the object", 0, []string{"svc", "--object-env-var=OBJECT", "--", "sh", "-c", `echo "$OBJECT"`}, `"clusterIP":"10\.`, ""),
	Entry("the object to read", 0, []string{"svc", "--stdin", "--", "sh", "-c", "cat"}, `(?m)^\{"apiVersion":"v1","kind":"Service"`, ""),
	Entry("the object as kubectl shows it", 0, []string{"svc", "-q", "--stdin", "--", "sh", "-c", "grep -c managedFields; :"}, `^0\n$`, ""),
	Entry("only some variables", 0, []string{"svc", "--env=A=1", "--", "sh", "-c", `echo "$A,$HOME,${KUBECONFIG-gone}"`},
		`(?m)^1,/.*,gone$`, ""),
	Entry("the whole environment", 0, []string{"svc", "--", "sh", "-c", `echo "${KUBECONFIG-gone}"`}, `(?m)^/.*kubeconfig`, ""),
	Entry("output without end", 0, []string{"svc", "--", "printf", "%s"}, `(?m)^defaultkubernetes\n`, ""),
	// how it ends
	Entry("quiet", 0, []string{"svc", "-q", "--", "echo"}, `^default kubernetes\n$`, "^$"),
	Entry("no headers", 0, []string{"svc", "--no-headers", "--", "echo"}, `^default kubernetes\n$`, "^$"),
	Entry("a failure", 2, []string{"svc", "--", "sh", "-c", "exit 7"}, "Sync ended",
		`default/kubernetes: command "sh" exited with status code 7 [\s\S]*1 runs, 1 failures, 0 retries[\s\S]*some objects failed`),
	Entry("an exit code that is repeated", 2, []string{
		"svc", "--retry-on-exit-code=7", "--retry-count=3", "--",
		"sh", "-c", "exit 7",
	}, "", "4 runs, 1 failures, 3 retries"),
	Entry("a timeout", 2, []string{"svc", "--timeout=100ms", "--", "sh", "-c", "sleep 1000"}, "", "after its timeout of 100ms"),
	Entry("a dry run", 0, []string{"svc", "--dry-run", "--names=echo", "--names=default/gone", "--delete=rm", "--", "rm"},
		line("Sync", "rm default kubernetes")+`[\s\S]*Deleted \trm default gone`, "2 runs, 0 failures, 0 retries, 1 deletions"),
	Entry("metrics", 0, []string{"svc", "--print-metrics-on-exit", "--", "true"},
		`observe_counts\{type="Sync"\} 1[\s\S]*observe_exec_durations_milliseconds_count\{exit_code="0",type="Sync"\} 1`, ""),
	// names
	Entry("a name that is gone", 0, []string{"svc", "--names=echo", "--names=default/gone", "--delete=echo", "--delete=remove"},
		`(?m)^# \S+ Deleted \techo remove default gone\nremove default gone$`, "1 deletions"),
	Entry("a live name, blank lines, CR, twice", 0, []string{
		"svc", "--names=printf",
		`--names=\n\r\ndefault/kubernetes\r\n\ndefault/kubernetes\n`, "--delete=echo",
	}, "Sync ended", "0 deletions"),
	Entry("a name elsewhere", 0, []string{"svc", "--names=echo", "--names=kube-system/gone", "--delete=echo"}, "", "0 deletions"),
	Entry("a live name outside the selection", 0, []string{
		"svc", "-l", "a=b", "--names=echo", "--names=default/kubernetes",
		"--delete=echo",
	}, "^$", "not reconciling a key[\\s\\S]*0 deletions"),
	Entry("garbage", 3, []string{"svc", "--names=echo", "--names=a b c", "--delete=echo"}, "Sync ended", "line 1"),
	Entry("half garbage", 3, []string{"svc", "--names=printf", `--names=default/gone\n***\n`, "--delete=echo"}, "", "0 deletions"),
	Entry("names that fail", 3, []string{
		"svc", "--names=sh", "--names=-c", "--names=echo default/gone; echo no zone >&2; exit 3",
		"--delete=echo",
	}, "", "no zone[\\s\\S]*0 deletions"),
	Entry("names that hang", 3, []string{"svc", "--timeout=1s", "--names=sleep", "--names=1000", "--delete=echo"},
		"", "took longer than"),
	Entry("names with only some variables", 0, []string{
		"svc", "--env=A=1", "--names=sh", "--names=-c", `--names=echo "${KUBECONFIG-default/gone}"`, "--delete=echo",
	}, "", "1 deletions"),
	Entry("too many orphans", 3, []string{
		"svc", "--max-orphans=1", "--names=printf", `--names=default/a\ndefault/b\n`,
		"--delete=echo",
	}, "", "safety limit: 2 of 2[^\n]*--max-orphans=2 [\\s\\S]*0 deletions"),
	Entry("as many orphans as allowed", 0, []string{
		"svc", "--max-orphans=2", "--names=printf",
		`--names=default/a\ndefault/b\n`, "--delete=echo",
	}, "", "2 deletions"),
	// Wrong command lines.
	Entry("two resources", 1, []string{"svc", "pods"}, "", `unexpected argument "pods": put -- `),
	Entry("an unknown flag", 1, []string{"svc", "--bogus"}, "", "unknown flag: --bogus"),
	Entry("an unknown format", 1, []string{"svc", "-o", "yaml"}, "", `"yaml" is not a template format`),
	Entry("a wrong template", 1, []string{"svc", "--template", "{.spec"}, "", "unclosed"),
	Entry("a wrong selector", 1, []string{"svc", "-l", "a=(b"}, "", "--selector"),
	Entry("names without delete", 1, []string{"svc", "--names=echo"}, "", "--delete and --names must both be specified"),
	Entry("no such program", 1, []string{"svc", "--", "./nothing"}, "", "nothing"),
	Entry("no command", 1, []string{"svc", "--"}, "", "no command after --"),
)

var _ = Describe("A process", func() {
	It("reports what it does as JSON", func() {
		s := observed(0, "svc", "--once", "-o", "json", "--print-metrics-on-exit", "--", "echo", "no object")
		var types []string
		for text := range strings.Lines(out(s)) {
			var entry struct {
				Type    string
				Command []string
				Runs    int
			}
			Expect(json.Unmarshal([]byte(text), &entry)).To(Succeed())
			types = append(types, entry.Type)
		}
		Expect(types).To(Equal([]string{"SyncStarted", "Sync", "SyncEnded", "Summary"}))
		Expect(logs(s)).To(And(ContainSubstring("no object default kubernetes\n"), ContainSubstring("observe_counts{")))
	})

	It("runs for what changes, until it is over", func(ctx SpecContext) {
		ns := namespace(ctx)
		service(ctx, ns, "first")
		s := observe("services", "-n", ns, "--template", "{.metadata.annotations.a}", "--exit-after=1h",
			"--delete=echo", "--delete=gone", "--", "echo", "is")
		Eventually(s.Out, patience).Should(gbytesSay("Sync ended"))
		made := service(ctx, ns, "web")
		Eventually(s.Out, patience).Should(gbytesSay("is %s web \n", ns))
		made.Annotations = map[string]string{"a": "two words"}
		_, err := user.CoreV1().Services(ns).Update(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.Out, patience).Should(gbytesSay("is %s web two words\n", ns))
		removeService(ctx, ns, "web")
		Eventually(s.Out, patience).Should(gbytesSay("gone %s web\n", ns))
		Expect(out(s)).To(MatchRegexp(`Added \d+\techo is[\s\S]*Updated \d+\techo is[\s\S]*Deleted \d+\techo gone`))
		s.Interrupt()
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(logs(s)).To(ContainSubstring("summary: 2 keys, 4 runs, 0 failures, 0 retries, 1 deletions"))
	}, SpecTimeout(2*time.Minute))

	It("ends after --exit-after with 0", func() {
		s := observed(0, "services", "--exit-after=300ms")
		Expect(logs(s)).To(ContainSubstring("Shutting down after 300ms ..."))
	})

	It("ends when commands fail too often", func() {
		s := observed(1, "namespaces", "--maximum-errors=6", "--", "false")
		Expect(logs(s)).To(ContainSubstring("reached maximum error limit of 6, exiting"))
		Expect(logs(s)).To(ContainSubstring("6 failures"))
	})

	It("runs for every object again with --resync-period", func() {
		s := observe("namespaces", "--resync-period=1s", "--field-selector=metadata.name=default", "--", "echo", "again")
		for range 3 {
			Eventually(s.Out, patience).Should(gbytesSay("again default\n"))
		}
	})

	It("asks for names again with --resync-period, and runs for no object more often than --min-interval allows", func() {
		s := observe("services", "--resync-period=1s", "--min-interval=1h", "--delete=echo", "--names=sh", "--names=-c",
			"--names=echo x >>asked; seq -f default/gone-%g $(wc -l <asked)")
		Eventually(s.Out, patience).Should(gbytesSay("default gone-3\n")) // all of more than three would be refused
		Expect(strings.Count(out(s), "\t"+kubernetes1+"\n")).To(Equal(1))
	})

	It("runs as many commands at once as --workers allows", func() {
		s := observe("namespaces", "--once", "--workers=2", "--",
			"sh", "-c", "echo x >>begun; until [ $(wc -l <begun) -ge 2 ]; do sleep 0.05; done")
		Eventually(s, patience).Should(gexec.Exit(0))
	})

	It("holds the Lease that is asked for", func(ctx SpecContext) {
		ns := namespace(ctx)
		observed(0, "services", "--once", "--leader-elect", "--lease="+ns+"/mine")
		lease, err := user.CoordinationV1().Leases(ns).Get(ctx, "mine", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(lease.Spec.LeaseTransitions).NotTo(BeNil())
	}, SpecTimeout(2*time.Minute))

	It("waits for a resource", func(ctx SpecContext) {
		s := observe("gizmos.example.org", "--wait")
		Eventually(s.Err, patience).Should(gbytesSay("waiting for it"))
		Expect(cluster.Apply(ctx, gizmos, gizmo)).To(Succeed())
		Eventually(s.Out, patience).Should(gbytesSay("\tdefault one\n"))
	}, SpecTimeout(2*time.Minute))

	It("says at once what is forbidden", func(ctx SpecContext) {
		account, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace(ctx), Name: "nobody"})
		Expect(err).NotTo(HaveOccurred())
		s := started(command(kubeconfigOf(account), binary, "services", "-A", "--listen-addr="))
		Eventually(s, patience).Should(gexec.Exit(1))
		Expect(logs(s)).To(And(ContainSubstring("error: listing services"), ContainSubstring("is forbidden")))
		Expect(strings.Count(logs(s), "\n")).To(Equal(1))
	}, SpecTimeout(2*time.Minute))

	It("does not delete what it may not ask about", func(ctx SpecContext) {
		ns := namespace(ctx)
		account, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: ns, Name: "blind", Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		}})
		Expect(err).NotTo(HaveOccurred())
		s := started(command(kubeconfigOf(account), binary, "services", "-n", ns, "--once",
			"--names=echo", "--names="+ns+"/gone", "--delete=echo"))
		Eventually(s, patience).Should(gexec.Exit(2))
		Expect(logs(s)).To(And(ContainSubstring("confirming that"), ContainSubstring("0 deletions")))
	}, SpecTimeout(2*time.Minute))

	It("answers probes while commands run, and while names fail", func() {
		address := freeAddress()
		s := observe("services", "--listen-addr="+address, "--names=false", "--delete=true", "--", "sh", "-c", "echo begun; sleep 1000")
		Eventually(s.Out, patience).Should(gbytesSay("begun"))
		Eventually(answerOf(address, "/livez"), patience).Should(HavePrefix("200"))
		Eventually(answerOf(address, "/readyz"), patience).Should(And(
			HavePrefix("200 [!] sweep/observe: "), ContainSubstring("status code 1")), "it is shown, and services go on")
		Expect(answerOf(address, "/metrics")()).To(ContainSubstring(`observe_counts{type="Sync"} 1`))
	})

	It("gives way when its default address is in use, and not when one was asked for", func() {
		s := started(command(cluster.Kubeconfig(), binary, "services"))
		Eventually(s.Out, patience).Should(gbytesSay(kubernetes1))
		second := started(command(cluster.Kubeconfig(), binary, "services", "--exit-after=2s"))
		Eventually(second, patience).Should(gexec.Exit(0))
		Expect(logs(second)).To(ContainSubstring("the address is in use"))
		third := started(command(cluster.Kubeconfig(), binary, "services", "--listen-addr=127.0.0.1:11251"))
		Eventually(third, patience).Should(gexec.Exit(1))
		Expect(logs(third)).To(ContainSubstring("address already in use"))
		Expect(logs(third)).NotTo(ContainSubstring("canceled"), "what follows from that")
	})

	It("lets one of two replicas work, and the other one after it", func() {
		one := observe("namespaces", "--leader-elect", "--", "echo", "first")
		Eventually(one.Out, patience).Should(gbytesSay("first default\n"))
		two := observe("namespaces", "--leader-elect", "--", "echo", "second")
		Consistently(two.Out, 2*time.Second).ShouldNot(gbytesSay("second"))
		dry := observed(0, "namespaces", "--leader-elect", "--dry-run", "--once", "--", "false")
		Expect(out(dry)).To(MatchRegexp(line("Sync", "false default")), "it needs no Lease")
		one.Terminate()
		Eventually(one, patience).Should(gexec.Exit(0))
		Eventually(two.Out, patience).Should(gbytesSay("second default\n"))
	})

	It("is a kubectl plugin, and completes", func() {
		s := started(command(cluster.Kubeconfig(), tools+"/kubectl", "observe", "services", "--once"))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(MatchRegexp(line("Sync", kubernetes1)))
		s = started(command(cluster.Kubeconfig(), tools+"/kubectl", "observe", "--help"))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(ContainSubstring("kubectl observe services -A"))
		s = started(command(cluster.Kubeconfig(), binary, "__complete", "serv"))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(ContainSubstring("services\n"))
		s = started(command(cluster.Kubeconfig(), binary, "completion", "bash"))
		Eventually(s, patience).Should(gexec.Exit(0))
		bash := exec.Command("bash", "-n")
		bash.Stdin = strings.NewReader(out(s))
		Expect(bash.Run()).To(Succeed())

		completer := []byte("#!/bin/sh\nexec kubectl-observe __complete \"$@\"\n") // as the README says
		Expect(os.WriteFile(tools+"/kubectl_complete-observe", completer, 0o755)).To(Succeed())
		s = started(command(cluster.Kubeconfig(), tools+"/kubectl", "__complete", "observe", "serv"))
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(ContainSubstring("services\n"))
	})

	It("has examples in its help that run", func() {
		s := observe("--help")
		Eventually(s, patience).Should(gexec.Exit(0))
		_, examples, _ := strings.Cut(out(s), "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\nWhich objects:\n")
		Expect(strings.Count(examples, "  observe ")).To(Equal(5))
		// Other specs leave thousands of Services elsewhere.
		examples = strings.NewReplacer("  observe ", binary+" --once --listen-addr= ", " -A", " -n default").Replace(examples)
		c := command(cluster.Kubeconfig(), "sh", "-eu", "-c", examples)
		c.Env = append(c.Env, "RECORD="+c.Dir+"/services.txt")
		c.Dir = filepath.Join(scripts, "record")
		s = started(c)
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(And(
			MatchRegexp(line("Sync", kubernetes1)), MatchRegexp(line("Sync", kubernetes1+` 10\.\S+`)),
			MatchRegexp(line("Sync", `\./record\.sh `+kubernetes1+` 10\.\S+`)), ContainSubstring(`creationTimestamp":"20`)))
	})
})

const gizmos = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.org}
spec:
  group: example.org
  names: {kind: Gizmo, plural: gizmos, singular: gizmo}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const gizmo = `
apiVersion: example.org/v1
kind: Gizmo
metadata: {name: one, namespace: default}
`
