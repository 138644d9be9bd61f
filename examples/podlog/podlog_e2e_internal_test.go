//go:build e2e

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/stage"
)

func TestE2EPodlog(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "podlog on the real server")
}

var (
	cluster *stage.Cluster
	binary  string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, nil)
	cluster.Deploy(ctx, "podlog", "deploy")
	var err error
	binary, err = gexec.Build("github.com/homeostat/homeostat/examples/podlog")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// run starts the program under the shipped rights until the end of the spec.
func run() *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(binary, "--listen-addr=", "--kubeconfig="+stage.KubeconfigOf(cluster.Account)),
		nil, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
	return session
}

// said returns a function that returns the log lines about a Pod, in order.
func said(session *gexec.Session, uid types.UID) func() []string {
	line := regexp.MustCompile(`msg=(\w+) .*uid=` + string(uid))
	return func() []string {
		var all []string
		for _, match := range line.FindAllStringSubmatch(string(session.Err.Contents()), -1) {
			all = append(all, match[1])
		}
		return all
	}
}

// beALife matches the log of a deleted Pod. The control plane updates Pods,
// too.
func beALife() OmegaMatcher {
	words := func(said []string) string { return strings.Join(said, " ") }
	return WithTransform(words, MatchRegexp("^created( updated)* deleted$"))
}

func create(ctx context.Context, namespace, name string) types.UID {
	GinkgoHelper()
	pod, err := cluster.User.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return pod.UID
}

// remove deletes a Pod as the kubelet does in the end.
func remove(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(cluster.User.CoreV1().Pods(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))).To(Succeed())
}

var _ = Describe("podlog under the shipped rights", func() {
	It("logs the life of each Pod once to its end, and stops when it is asked to", func(ctx SpecContext) {
		namespace := cluster.TemporaryNamespace(ctx)
		session := run()
		const pods, updates = 50, 10
		uids := map[string]types.UID{}
		for i := range pods {
			uids[fmt.Sprint("p", i)] = create(ctx, namespace, fmt.Sprint("p", i))
		}
		for u := range updates {
			for name := range uids {
				_, err := cluster.User.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{"update":"%d"}}}`, u), metav1.PatchOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		for name, uid := range uids {
			Eventually(ctx, said(session, uid), stage.Patience).Should(ContainElement("updated"), name)
		}
		for name := range uids {
			remove(ctx, namespace, name)
		}
		for name, uid := range uids {
			Eventually(ctx, said(session, uid), stage.Patience).Should(beALife(), name)
		}
		session.Signal(syscall.SIGTERM)
		Eventually(session, stage.Patience).Should(gexec.Exit(0))
		Expect(strings.Count(string(session.Err.Contents()), "msg=deleted")).To(Equal(pods))
	}, SpecTimeout(3*time.Minute))

	It("begins again with what there is after a kill -9", func(ctx SpecContext) {
		namespace := cluster.TemporaryNamespace(ctx)
		stays, goes := create(ctx, namespace, "stays"), create(ctx, namespace, "goes")
		first := run()
		Eventually(ctx, said(first, goes), stage.Patience).Should(Equal([]string{"created"}))
		Eventually(ctx, said(first, stays), stage.Patience).Should(Equal([]string{"created"}))
		first.Kill().Wait(stage.Patience)
		remove(ctx, namespace, "goes")
		second := run()
		Eventually(ctx, said(second, stays), stage.Patience).Should(Equal([]string{"created"}))
		remove(ctx, namespace, "stays")
		Eventually(ctx, said(second, stays), stage.Patience).Should(beALife())
		Expect(said(second, goes)()).To(BeEmpty())
	}, SpecTimeout(3*time.Minute))
})
