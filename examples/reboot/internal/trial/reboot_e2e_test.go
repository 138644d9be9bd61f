//go:build e2e

package trial_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

func pauseGroup(ctx context.Context, name string, paused bool) {
	change := `{"spec":{"paused":false}}`
	if paused {
		change = `{"spec":{"paused":true}}`
	}
	_, err := groups.Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// slotsOf returns the slots of a group.
func slotsOf(group string) func(ctx SpecContext) ([]api.Slot, error) {
	return func(ctx SpecContext) ([]api.Slot, error) {
		g, err := groups.Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return g.Status.Slots, nil
	}
}

// begin asks for a reboot and waits until the machine is off.
func begin(ctx SpecContext, name string) *machine.Simulated {
	startController(ctx)
	// First the group: a node that asks and is of none gets one from the
	// default group.
	Expect(createGroup(ctx, name, api.RebootGroupSpec{
		MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting(name),
	})).To(Succeed())
	createNode(ctx, name, map[string]string{protocol.Needed: "r"})
	m := startAgent(ctx, name)
	Eventually(m.Off).WithContext(ctx).WithTimeout(patience).Should(BeTrue())
	return m
}

// wake boots the machine, and lets the agent look at its node.
func wake(ctx context.Context, m *machine.Simulated, name string) {
	kubeletReports(ctx, name, m.PowerOn())
}

var _ = Describe("a reboot", func() {
	cordoned := func(name string) func(ctx SpecContext) (bool, error) {
		return func(ctx SpecContext) (bool, error) {
			n, err := core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return n.Spec.Unschedulable, err
		}
	}

	It("cordons, reboots, uncordons, and tells of it in events", func(ctx SpecContext) {
		m := begin(ctx, "plain")
		Expect(cordoned("plain")(ctx)).To(BeTrue())
		wake(ctx, m, "plain")
		Eventually(slotsOf("plain")).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
		Expect(state("plain")(ctx).Last).To(HaveValue(And(
			HaveField("Result", protocol.Rebooted), HaveField("FromBootID", "plain-boot-1"), HaveField("ToBootID", "plain-boot-2"))))
		Expect(cordoned("plain")(ctx)).To(BeFalse())
		Eventually(reasons("plain")).WithContext(ctx).WithTimeout(patience).Should(ContainElements("Requested", "Granted", "Draining", "Rebooted"))
	})

	It("leaves a cordon alone that another client has put there meanwhile", func(ctx SpecContext) {
		m := begin(ctx, "recordoned")
		unschedulable(ctx, "recordoned", nil)
		unschedulable(ctx, "recordoned", true)
		wake(ctx, m, "recordoned")
		Eventually(slotsOf("recordoned")).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
		Expect(cordoned("recordoned")(ctx)).To(BeTrue())
	})

	It("keeps the ledger of a deleted group until the node is back", func(ctx SpecContext) {
		m := begin(ctx, "deleted")
		Expect(groups.Delete(ctx, "deleted", metav1.DeleteOptions{})).To(Succeed())
		Consistently(slotsOf("deleted")).WithContext(ctx).WithTimeout(quiet).Should(HaveLen(1))
		wake(ctx, m, "deleted")
		Eventually(func(ctx SpecContext) error {
			_, err := groups.Get(ctx, "deleted", metav1.GetOptions{})
			return err
		}).WithContext(ctx).WithTimeout(patience).Should(MatchError(ContainSubstring("not found")))
	})

	It("works with the permissions of the README, and drains on SIGTERM", func(ctx SpecContext) {
		namespace, err := cluster.Namespace(ctx, "trial")
		Expect(err).NotTo(HaveOccurred())
		kubeconfigs := map[string]string{}
		for name, rules := range map[string]e2e.ServiceAccount{
			"controller": {Namespace: namespace, Name: "controller", Rules: leaseRules(), ClusterRules: controllerRules()},
			"agent":      {Namespace: namespace, Name: "agent", ClusterRules: agentRules()},
		} {
			config, err := cluster.ServiceAccount(ctx, rules)
			Expect(err).NotTo(HaveOccurred())
			kubeconfigs[name] = kubeconfigOf(config)
		}
		createNode(ctx, "least", map[string]string{protocol.Needed: "r"})
		Expect(createGroup(ctx, "least", api.RebootGroupSpec{
			MaxUnavailable: intstr.FromInt32(1), NodeSelector: selecting("least"),
		})).To(Succeed())
		dir := GinkgoT().TempDir()
		bootID, asked := filepath.Join(dir, "boot_id"), filepath.Join(dir, "asked")
		Expect(os.WriteFile(bootID, []byte("least-boot-1\n"), 0o600)).To(Succeed())
		address := freeAddress()
		background(process("controller", "--kubeconfig", kubeconfigs["controller"], "--log-format", "json",
			"--listen-addr", address, "--leader-elect", "--leader-elect-resource-namespace", namespace))
		background(process("agent", "--kubeconfig", kubeconfigs["agent"], "--node", "least", "--boot-id-file", bootID,
			"--reboot-method", "command", "--reboot-command", "touch "+asked, "--listen-addr", ""))
		Eventually(func() error { _, err := os.Stat(asked); return err }).WithTimeout(patience).Should(Succeed())
		Expect(os.WriteFile(bootID, []byte("least-boot-2\n"), 0o600)).To(Succeed())
		kubeletReports(ctx, "least", "least-boot-2")
		Eventually(slotsOf("least")).WithContext(ctx).WithTimeout(patience).Should(BeEmpty())
		Expect(get("http://" + address + "/livez")()).To(ContainSubstring("ok"))
		Eventually(get("http://" + address + "/readyz")).WithTimeout(patience).Should(ContainSubstring("ok"))
		Expect(get("http://" + address + "/metrics")()).To(ContainSubstring(`reboot-controller`))
		Eventually(reasons("least")).WithContext(ctx).WithTimeout(patience).Should(ContainElements("Granted", "Rebooted"))
	})
})
