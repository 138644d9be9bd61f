//go:build e2e

package examples_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/stage"
)

// rebootKey is an annotation of the reboot operator.
func rebootKey(name string) string { return "reboot.homeostat.dev/" + name }

// merge patches a node or its status as that user.
func merge(ctx context.Context, as *rest.Config, node string, change map[string]any, subresource ...string) error {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(as)
	Expect(err).NotTo(HaveOccurred())
	data, err := json.Marshal(change)
	Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, data, metav1.PatchOptions{}, subresource...)
	return err
}

func annotation(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{rebootKey(name): value}}}
}

// agentOn returns the account of an agent, with the token of a Pod on that node.
func agentOn(ctx context.Context, node string) *rest.Config {
	GinkgoHelper()
	pod, err := cluster.User.CoreV1().Pods("reboot").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "reboot-agent", Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	pod.Status.Phase = corev1.PodSucceeded // A drain leaves it alone, as it does with a Pod of the DaemonSet.
	_, err = cluster.User.CoreV1().Pods("reboot").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	token, err := cluster.User.CoreV1().ServiceAccounts("reboot").CreateToken(ctx, "reboot-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = token.Status.Token
	return config
}

func rebootNode(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := cluster.User.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(cluster.User.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
	bootOf(ctx, name, "boot-1")
}

// bootOf is the kubelet's report of a boot.
func bootOf(ctx context.Context, node, id string) {
	GinkgoHelper()
	Expect(merge(ctx, cluster.Config(), node, map[string]any{"status": map[string]any{
		"nodeInfo":   map[string]any{"bootID": id},
		"conditions": []map[string]any{{"type": "Ready", "status": "True"}},
	}}, "status")).To(Succeed())
}

var _ = Describe("The reboot operator as it is shipped", Ordered, func() {
	var own, other, unbound, controller *rest.Config

	BeforeAll(func(ctx SpecContext) {
		for _, file := range []string{
			"crd.yaml", "namespace.yaml", "rbac.yaml", "policy.yaml", "priority.yaml", "deployment.yaml", "daemonset.yaml",
		} {
			manifest, err := os.ReadFile(filepath.Join("reboot", "deploy", file))
			Expect(err).NotTo(HaveOccurred())
			Expect(cluster.Apply(ctx, string(manifest))).To(Succeed(), file)
		}
		rebootNode(ctx, "own")
		rebootNode(ctx, "other")
		own, other = agentOn(ctx, "own"), agentOn(ctx, "other")
		var err error
		unbound, err = cluster.As(ctx, "reboot", "reboot-agent")
		Expect(err).NotTo(HaveOccurred())
		controller, err = cluster.As(ctx, "reboot", "reboot-controller")
		Expect(err).NotTo(HaveOccurred())
		for _, node := range []string{"own", "other"} { // until roles and policies are in force
			Eventually(merge).WithContext(ctx).WithArguments(controller, node, annotation("reboot-void", "1")).
				WithTimeout(stage.Patience).Should(Succeed())
		}
		Eventually(merge).WithContext(ctx).WithArguments(own, "other", annotation("reboot-needed", "x")).
			WithTimeout(stage.Patience).Should(MatchError(ContainSubstring("must not change node 'other'")))
		attempts := 0
		Eventually(ctx, func() error { // a value that is there already may be written by all
			attempts++
			return merge(ctx, cluster.Config(), "own", annotation("reboot-now", strconv.Itoa(attempts)))
		}, stage.Patience).Should(MatchError(ContainSubstring("only the reboot controller")))
		// They may have succeeded before.
		Expect(merge(ctx, cluster.Config(), "other", annotation("reboot-needed", nil))).To(Succeed())
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-now", nil))).To(Succeed())
	})

	It("lets an agent cordon and annotate its own node", func(ctx SpecContext) {
		for _, change := range []map[string]any{
			annotation("reboot-in-progress", "x"), annotation("last-reboot", "x"), annotation("reboot-needed", "x"),
			annotation("reboot-in-progress", nil), annotation("reboot-needed", nil), annotation("last-reboot", nil),
			{"spec": map[string]any{"unschedulable": true}},
			{"spec": map[string]any{"unschedulable": nil}},
		} {
			Expect(merge(ctx, own, "own", change)).To(Succeed())
		}
	})

	DescribeTable("keeps an agent from",
		func(ctx SpecContext, as func() *rest.Config, change map[string]any, text string) {
			Expect(merge(ctx, as(), "own", change)).To(MatchError(ContainSubstring(text)))
		},
		Entry("another node", func() *rest.Config { return other }, annotation("reboot-in-progress", "x"),
			"the agent of node 'other' must not change node 'own'"),
		Entry("any node with a token that is of no Pod", func() *rest.Config { return unbound }, annotation("reboot-in-progress", "x"),
			"its token must belong to a Pod on the node itself"),
		Entry("rebooting without a slot", func() *rest.Config { return own }, annotation("reboot-now", "x"), "only the reboot controller"),
		Entry("the void", func() *rest.Config { return own }, annotation("reboot-void", "7"), "denied request"),
		Entry("labels", func() *rest.Config { return own }, map[string]any{"metadata": map[string]any{"labels": map[string]any{"role": "db"}}},
			"nothing of its node but spec.unschedulable"),
		Entry("taints", func() *rest.Config { return own },
			map[string]any{"spec": map[string]any{"taints": []map[string]any{{"key": "k", "effect": "NoExecute"}}}},
			"nothing of its node but spec.unschedulable"),
		Entry("annotations of others", func() *rest.Config { return own },
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/a": "x"}}}, "no annotation but its own"),
		Entry("the pause", func() *rest.Config { return own }, annotation("reboot-paused", "true"), "no annotation but its own"),
	)

	It("keeps everyone else from telling a node to reboot, also through the status", func(ctx SpecContext) {
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-now", "x"))).To(MatchError(
			ContainSubstring("to ask for a reboot, set reboot.homeostat.dev/reboot-needed")))
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-now", "x"), "status")).To(MatchError(
			ContainSubstring("only the reboot controller")))
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-in-progress", "x"))).To(MatchError(
			ContainSubstring("only the agent of the node")))
		_, err := cluster.User.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "new", Annotations: map[string]string{rebootKey("reboot-now"): "x"},
		}}, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("only the reboot controller")))
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-paused", "true"))).To(Succeed())
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-paused", nil))).To(Succeed())
	})

	It("lets the controller grant, and everybody call off", func(ctx SpecContext) {
		Expect(merge(ctx, controller, "own", annotation("reboot-now", "x"))).To(Succeed())
		Expect(merge(ctx, controller, "own", annotation("reboot-in-progress", "x"))).To(MatchError(ContainSubstring("only the agent")))
		Expect(merge(ctx, controller, "own", annotation("last-reboot", "x"))).To(Succeed(), "the result of a reboot that it has ended")
		Expect(merge(ctx, controller, "own", annotation("last-reboot", nil))).To(Succeed())
		Expect(merge(ctx, cluster.Config(), "own", annotation("reboot-now", nil))).To(Succeed())
	})

	It("keeps the ledger for the controller", func(ctx SpecContext) {
		groups := schema.GroupVersionResource{Group: "reboot.homeostat.dev", Version: "v1alpha1", Resource: "rebootgroups"}
		Expect(cluster.Apply(ctx, `{apiVersion: reboot.homeostat.dev/v1alpha1, kind: RebootGroup,
			metadata: {name: guarded}, spec: {maxUnavailable: 1, nodeSelector: {matchLabels: {role: none}}}}`)).To(Succeed())
		slots := []byte(`{"status":{"slots":[{"node":"own","nodeUID":"u","epoch":1}]}}`)
		write := func(as *rest.Config) error {
			client, err := dynamic.NewForConfig(as)
			Expect(err).NotTo(HaveOccurred())
			_, err = client.Resource(groups).Patch(ctx, "guarded", types.MergePatchType, slots, metav1.PatchOptions{}, "status")
			return err
		}
		Expect(write(cluster.Config())).To(MatchError(ContainSubstring("only the reboot controller writes the status")))
		Expect(write(own)).To(MatchError(ContainSubstring("forbidden")))
		Expect(write(controller)).To(Succeed())
		client, err := dynamic.NewForConfig(cluster.Config())
		Expect(err).NotTo(HaveOccurred())
		Expect(client.Resource(groups).Delete(ctx, "guarded", metav1.DeleteOptions{})).To(Succeed())
	})

	It("reboots a node with these rights", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		bootID, asked := filepath.Join(dir, "boot_id"), filepath.Join(dir, "asked")
		host, sentinel := filepath.Join(dir, "host", "reboot-required"), filepath.Join(dir, "reboot-required")
		Expect(os.Mkdir(filepath.Dir(host), 0o700)).To(Succeed())
		Expect(os.WriteFile(bootID, []byte("boot-1\n"), 0o600)).To(Succeed())
		start := func(program string, args ...string) *gexec.Session {
			binary, err := gexec.Build("github.com/homeostat/homeostat/examples/reboot/" + program)
			Expect(err).NotTo(HaveOccurred())
			session, err := gexec.Start(exec.Command(binary, args...), GinkgoWriter, GinkgoWriter)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
			return session
		}
		run := func(program string, as *rest.Config, args ...string) *gexec.Session {
			return start(program, append([]string{"--kubeconfig=" + stage.KubeconfigOf(as), "--log-format=json"}, args...)...)
		}
		address := freeAddress()
		sessions := []*gexec.Session{
			run("controller", controller, "--leader-elect", "--leader-elect-resource-namespace=reboot", "--leader-elect-identity=one", "--listen-addr="+address),
			run("agent", own, "--node=own", "--boot-id-file="+bootID, "--reboot-method=command", "--reboot-command=touch "+asked,
				"--reboot-sentinel="+sentinel, "--reboot-sentinel-period=1s", "--listen-addr="),
			start("agent", "mirror", "--from="+host, "--to="+sentinel, "--period=1s"),
		}
		Eventually(answerOf(address, "/readyz"), stage.Patience).Should(HavePrefix("200"))
		Expect(os.WriteFile(host, nil, 0o600)).To(Succeed())
		Eventually(func() error { _, err := os.Stat(asked); return err }, stage.Patience).Should(Succeed())
		Expect(os.WriteFile(bootID, []byte("boot-2\n"), 0o600)).To(Succeed())
		bootOf(ctx, "own", "boot-2")
		Eventually(func() (map[string]string, error) {
			node, err := cluster.User.CoreV1().Nodes().Get(ctx, "own", metav1.GetOptions{})
			return node.Annotations, err
		}, stage.Patience).Should(HaveKeyWithValue(rebootKey("last-reboot"), ContainSubstring(`"toBootID":"boot-2"`)))
		for _, session := range sessions {
			session.Signal(syscall.SIGTERM)
			Eventually(session, stage.Patience).Should(gexec.Exit(0))
			Expect(session.Err.Contents()).NotTo(ContainSubstring("forbidden"))
		}
	})
})
