//go:build e2e

package trial_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
)

const patience = 20 * time.Second

// An outcome is how a program ended.
type outcome struct {
	code int
	text string
}

// execute runs one of the programs to its end.
func execute(ctx context.Context, env []string, name string, args ...string) outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Fail(err.Error())
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String()}
}

// kubeconfigOf writes a kubeconfig file for the configuration.
func kubeconfigOf(config *rest.Config) string {
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)).To(Succeed())
	return file
}

// createNode creates a Ready node, and removes it after the test.
func createNode(ctx context.Context, name string, annotations map[string]string) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"trial": name}, Annotations: annotations,
	}}
	_, err := core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(ignoreNotFound(core.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))).To(Succeed())
	})
	kubeletReports(ctx, name, name+"-boot-1")
}

// kubeletReports makes the node Ready in that boot.
func kubeletReports(ctx context.Context, name, bootID string) {
	patchNode(ctx, name, map[string]any{"status": map[string]any{
		"nodeInfo": map[string]any{"bootID": bootID},
		"conditions": []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}},
	}}, "status")
}

func patchNode(ctx context.Context, name string, change map[string]any, subresource ...string) {
	data, err := json.Marshal(change)
	Expect(err).NotTo(HaveOccurred())
	_, err = core.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{FieldManager: "admin"}, subresource...)
	Expect(err).NotTo(HaveOccurred())
}

func annotate(ctx context.Context, name, key string, value any) {
	patchNode(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

func unschedulable(ctx context.Context, name string, value any) {
	patchNode(ctx, name, map[string]any{"spec": map[string]any{"unschedulable": value}})
}

// createGroup creates a group, and removes it after the test.
func createGroup(ctx context.Context, name string, spec api.RebootGroupSpec) error {
	_, err := groups.Create(ctx, &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	DeferCleanup(removeGroup, name)
	return nil
}

func removeGroup(ctx SpecContext, name string) {
	_, err := groups.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	Expect(ignoreNotFound(err)).To(Succeed())
	Expect(ignoreNotFound(groups.Delete(ctx, name, metav1.DeleteOptions{}))).To(Succeed())
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// selecting selects the one node of that name.
func selecting(node string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"trial": node}}
}

// background runs f until the test ends.
func background(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	DeferCleanup(func() {
		cancel()
		Expect(<-ended).To(Succeed())
	})
}

// startController runs a controller in this process.
func startController(ctx context.Context) {
	recorder, stop, err := operator.Recorder(ctx, stage.Reach(cluster.Config()), controller.DefaultName)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	c, err := controller.New(core.CoreV1().Nodes(), groups, &controller.Options{Events: recorder})
	Expect(err).NotTo(HaveOccurred())
	background(c.Run)
}

// startAgent runs an agent in this process, on a machine that is switched on
// again by the test.
func startAgent(ctx context.Context, node string) *machine.Simulated {
	recorder, stop, err := operator.Recorder(ctx, stage.Reach(cluster.Config()), protocol.AgentManager)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	m := machine.NewSimulated(node, nil)
	a, err := agent.New(core.CoreV1().Nodes(), drain.Pods(core.CoreV1()), &agent.Options{
		Node: node, Machine: m, Events: recorder, DrainPeriod: time.Second,
	})
	Expect(err).NotTo(HaveOccurred())
	background(a.Run)
	return m
}

// state reads the node's annotations.
func state(node string) func(ctx SpecContext) protocol.State {
	return func(ctx SpecContext) protocol.State {
		n, err := core.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return protocol.Read(n)
	}
}

// conditionOf returns a condition of a group as "status reason message".
func conditionOf(group, kind string) func(ctx SpecContext) string {
	return func(ctx SpecContext) string {
		g, err := groups.Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, kind)
		if c == nil {
			return "none"
		}
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
}

// environment is this one without a way to a cluster.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + GinkgoT().TempDir()}
}

// reasons lists the events about a node.
func reasons(node string) func(ctx SpecContext) []string {
	return func(ctx SpecContext) []string {
		var all []string
		list, err := core.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, e := range list.Items {
			if e.Regarding.Kind == "Node" && e.Regarding.Name == node {
				all = append(all, e.Reason)
			}
		}
		return all
	}
}

// notes lists the texts of the events about a node that have that reason.
func notes(node, reason string) func(ctx SpecContext) []string {
	return func(ctx SpecContext) []string {
		var all []string
		list, err := core.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Name == node && e.Reason == reason {
				all = append(all, e.Note)
			}
		}
		return all
	}
}

// unfinalize lets a Pod go.
func unfinalize(ctx SpecContext, namespace, pod string) {
	_, err := core.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	Expect(ignoreNotFound(err)).To(Succeed())
}

// process runs one of the programs until its context ends, and then lets it
// drain.
func process(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
		cmd.Env = environment()
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = patience
		cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
		err := cmd.Run()
		if ctx.Err() != nil && cmd.ProcessState.Success() {
			return nil
		}
		return err
	}
}

// freeAddress returns an address without a listener.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(l.Close()).To(Succeed()) }()
	return l.Addr().String()
}

// get reads the answer of a URL, which must be 200.
func get(url string) func() (string, error) {
	return func() (string, error) {
		answer, err := http.Get(url)
		if err != nil {
			return "", err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s: %s", url, answer.Status, text)
		}
		return string(text), err
	}
}
