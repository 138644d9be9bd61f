//go:build e2e

package main_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

const (
	patience = 2 * time.Minute
	// building is how long building a program may take, with empty caches and
	// beside other tests.
	building = 15 * time.Minute
	crd      = "rebootgroups.reboot.homeostat.dev"
)

// chartStage is a cluster with the chart, whose controller runs while its
// Deployment exists.
type chartStage struct {
	*WithT
	t       *testing.T
	cluster *e2e.Cluster
	client  kubernetes.Interface
	root    string
	tools   string // a folder with kubectl and helm
}

func newChartStage(t *testing.T) *chartStage {
	t.Helper()
	s := &chartStage{WithT: NewWithT(t), t: t, tools: t.TempDir()}
	var err error
	s.root, err = filepath.Abs("../../..")
	s.Expect(err).NotTo(HaveOccurred())
	s.cluster, err = e2e.Start(t.Context(), nil)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { s.Expect(s.cluster.Stop()).To(Succeed()) })
	s.client = kubernetes.NewForConfigOrDie(s.cluster.Config())
	s.Expect(os.WriteFile(filepath.Join(s.tools, "kubectl"), []byte(
		"#!/bin/sh\nexec "+filepath.Join(s.root, "bin", "controlplane")+" kubectl \"$@\"\n"), 0o755)).To(Succeed()) //nolint:gosec // it is run
	s.shWithin(building, "GOWORK=off go build -modfile=internal/ship/go.mod -o "+filepath.Join(s.tools, "helm")+" helm.sh/helm/v4/cmd/helm")
	return s
}

// sh runs a line of the shell as the administrator, and returns its output.
func (s *chartStage) sh(line string) string {
	s.t.Helper()
	return s.shWithin(patience, line)
}

// shWithin is like sh, with a limit of its own.
func (s *chartStage) shWithin(limit time.Duration, line string) string {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), limit)
	defer stop()
	command := exec.CommandContext(ctx, "sh", "-ec", line)
	command.Dir = s.root
	command.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(), "PATH="+s.tools+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	return string(out)
}

// install installs the chart and runs its controller with the rights of its
// account. It returns what helm says, and a channel that is closed when the
// controller has ended, which is when the Deployment is deleted.
func (s *chartStage) install(binary string) (notes string, ended <-chan struct{}) {
	s.t.Helper()
	notes = s.sh("helm install reboot examples/reboot/chart --namespace reboot --create-namespace")
	account, err := s.cluster.As(s.t.Context(), "reboot", "reboot-controller")
	s.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: account.Host, CertificateAuthorityData: account.CAData, CertificateAuthority: account.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: account.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig)).To(Succeed())
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	log := &compile.Tail{}
	command := exec.CommandContext(ctx, binary, "--kubeconfig="+kubeconfig, "--listen-addr=")
	command.Stdout, command.Stderr = log, log
	s.Expect(command.Start()).To(Succeed())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = command.Wait() // it is killed
	}()
	s.t.Cleanup(func() {
		stop()
		<-done
		s.t.Log(log.String())
	})
	go func() { // the work of the kubelet
		for pace := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-pace.C {
			all, err := s.client.AppsV1().Deployments("reboot").List(ctx, metav1.ListOptions{})
			if err == nil && len(all.Items) == 0 {
				stop()
			}
		}
	}()
	return notes, done
}

// node makes a node that is ready, has the boot, and asks for a reboot.
func (s *chartStage) node(name string) {
	s.t.Helper()
	_, err := s.client.CoreV1().Nodes().Create(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{"reboot.homeostat.dev/reboot-needed": "x"},
	}}, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.boot(name, "1")
}

// boot is the kubelet's report of a boot.
func (s *chartStage) boot(node, id string) {
	s.t.Helper()
	data, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{BootID: id},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	s.Expect(err).NotTo(HaveOccurred())
	_, err = s.client.CoreV1().Nodes().Patch(s.t.Context(), node, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	s.Expect(err).NotTo(HaveOccurred())
}

// slots returns the nodes that have a slot.
func (s *chartStage) slots() []string {
	return strings.Fields(s.sh("kubectl get rebootgroups -o jsonpath='{.items[*].status.slots[*].node}'"))
}

// What helm says of an uninstallation leaves nothing, although a node has a
// slot and another waits for one, and all groups have finalizers. The node that
// waits would make the program create the group default again, if only the
// groups were deleted: its finalizer would keep the kind forever.
func TestE2EAnUninstallationOfTheChartLeavesNothing(t *testing.T) {
	s := newChartStage(t)
	binary := filepath.Join(t.TempDir(), "controller")
	s.shWithin(building, "cd examples/reboot && go build -o "+binary+" ./controller")
	notes, ended := s.install(binary)
	s.sh("kubectl wait --for=condition=Established --timeout=1m crd/" + crd)
	s.node("a")
	s.node("b")
	s.Eventually(s.slots, patience, time.Second).Should(HaveLen(1), "one at a time, in the default group")

	s.sh("helm uninstall reboot --namespace reboot")
	<-ended
	s.Expect(s.slots()).To(HaveLen(1), "the groups stay")
	_, ended = s.install(binary) // and work again

	var commands []string
	for _, found := range regexp.MustCompile(`(?m)^  ((?:kubectl delete|helm uninstall) .*)$`).FindAllStringSubmatch(notes, -1) {
		commands = append(commands, found[1])
	}
	s.Expect(commands).NotTo(BeEmpty(), notes)
	for _, line := range commands {
		t.Log(line)
		s.sh(line)
	}
	s.Expect(s.sh("kubectl get crd " + crd + " --ignore-not-found")).To(BeEmpty())
	s.Expect(s.sh("kubectl get deployments --all-namespaces -o name")).To(BeEmpty())
	<-ended
}
