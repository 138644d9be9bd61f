//go:build e2e

package trial_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

func ownedBy(namespace, owner string) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(namespace).WithAnnotations(map[string]string{"owner": owner})
}

func ownerOf(ctx context.Context, name string) (string, error) {
	n, err := user.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	return n.GetAnnotations()["owner"], err
}

func namespaceUID(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	n, err := user.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return n.UID
}

var _ = Describe("The manifest", func() {
	It("runs its inline script with the rights that it grants", func(ctx SpecContext) {
		manifest, err := os.ReadFile("../../deploy/set-owner.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
		deployment, err := user.AppsV1().Deployments("set-owner").Get(ctx, "set-owner", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() (int, error) {
			pods, err := user.CoreV1().Pods("set-owner").List(ctx, metav1.ListOptions{})
			return len(pods.Items), err
		}, patience).Should(Equal(1), "the restricted policy admits its Pod")

		// The files that the kubelet would mount, and the account that the Pod
		// would have.
		files, err := user.CoreV1().ConfigMaps("set-owner").Get(ctx, "set-owner", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		mounted := GinkgoT().TempDir()
		for name, text := range files.Data {
			Expect(os.WriteFile(filepath.Join(mounted, name), []byte(text), 0o555)).To(Succeed())
		}
		account, err := cluster.As(ctx, "set-owner", "set-owner")
		Expect(err).NotTo(HaveOccurred())
		container := deployment.Spec.Template.Spec.Containers[0]
		var args []string
		address := freeAddress()
		for _, argument := range container.Args {
			argument = strings.Replace(argument, container.VolumeMounts[0].MountPath, mounted, 1)
			args = append(args, strings.Replace(argument, "--listen-addr=:8080", "--listen-addr="+address, 1))
		}
		c := command(kubeconfigOf(account), binary, args...)
		for _, variable := range container.Env {
			c.Env = append(c.Env, variable.Name+"="+variable.Value)
		}
		ns := namespace(ctx)
		s := started(c)
		Eventually(answerOf(address, container.ReadinessProbe.HTTPGet.Path), patience).Should(HavePrefix("200"))
		Expect(answerOf(address, container.LivenessProbe.HTTPGet.Path)()).To(HavePrefix("200"))
		Eventually(ctx, func() (string, error) { return ownerOf(ctx, ns) }, patience).Should(Equal("platform-team"))
		s.Terminate()
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(logs(s)).NotTo(ContainSubstring("forbidden"))
	}, SpecTimeout(3*time.Minute))

	It("has the script that ships beside it", func() {
		manifest, err := os.ReadFile("../../deploy/set-owner.yaml")
		Expect(err).NotTo(HaveOccurred())
		shipped, err := os.ReadFile(filepath.Join(scripts, "set-owner/set-owner.sh"))
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(shipped)) {
			if !strings.HasPrefix(line, "#") {
				Expect(string(manifest)).To(ContainSubstring("    " + line))
			}
		}
	})
})
