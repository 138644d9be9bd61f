//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

var _ = Describe("Cluster", func() {
	It("reports the version of Kubernetes that it is", func() {
		version, err := client.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(HavePrefix("v" + cmp.Or(os.Getenv("KUBERNETES"), "1.36") + "."))
	})

	It("serves only on loopback", func() {
		Expect(cluster.Config().Host).To(HavePrefix("https://127.0.0.1:"))
	})

	It("writes a kubeconfig that kubectl understands", func(ctx SpecContext) {
		program, err := compile.ControlPlane(ctx, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		out, err := exec.CommandContext(ctx, program, "kubectl", "--kubeconfig", cluster.Kubeconfig(),
			"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(Equal("kubernetes-admin"))
	})

	When("a Deployment is created", func() {
		It("creates its Pods and schedules them to a Node that is written Ready", func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			node := createNode(ctx)
			createDeployment(ctx, namespace, 2)
			Eventually(ctx, func(g Gomega) []string {
				pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				var nodes []string
				for _, p := range pods.Items {
					nodes = append(nodes, p.Spec.NodeName)
				}
				return nodes
			}).WithTimeout(slow).Should(ConsistOf(node, node))
		})
	})

	When("a namespace is deleted", func() {
		It("goes away with what is in it", func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			createConfigMap(ctx, namespace, "inside", nil)
			Expect(client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
			Eventually(ctx, func() bool {
				_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}).WithTimeout(slow).Should(BeTrue())
		})
	})

	When("an owner is deleted", func() {
		It("collects the object that it owns", func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			owner := createConfigMap(ctx, namespace, "owner", nil)
			createConfigMap(ctx, namespace, "owned", owner)
			maps := client.CoreV1().ConfigMaps(namespace)
			Expect(maps.Delete(ctx, "owner", metav1.DeleteOptions{})).To(Succeed())
			Eventually(ctx, func() bool {
				_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}).WithTimeout(slow).Should(BeTrue())
		})
	})

	When("parts of it are killed", Serial, func() {
		// kube-controller-manager ends if the API server does not answer while
		// it starts. The default service account of a namespace shows that it
		// has started.
		BeforeEach(func(ctx SpecContext) { newNamespace(ctx) })

		It("keeps its objects, credentials and address over a restart", func(ctx SpecContext) {
			namespace := newNamespace(ctx)
			before := createConfigMap(ctx, namespace, "kept", nil)
			for _, kill := range []func() error{cluster.KillAPIServer, cluster.KillEtcd, func() error { return nil }} {
				Expect(kill()).To(Succeed())
				Expect(cluster.Restart(ctx)).To(Succeed())
				after, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "kept", metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(after.UID).To(Equal(before.UID))
				Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
				newNamespace(ctx) // so that it has started before the next kill
			}
		})

		It("refuses connections while the API server is down", func(ctx SpecContext) {
			Expect(cluster.KillAPIServer()).To(Succeed())
			_, err := client.Discovery().ServerVersion()
			Expect(err).To(MatchError(ContainSubstring("connection refused")))
			Expect(cluster.KillAPIServer()).To(MatchError(ContainSubstring("not running")))
			Expect(cluster.Restart(ctx)).To(Succeed())
		})

		It("fails writes, but goes on answering, while etcd is down", func(ctx SpecContext) {
			Expect(cluster.KillEtcd()).To(Succeed())
			_, err := client.Discovery().ServerVersion()
			Expect(err).NotTo(HaveOccurred())
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err = client.CoreV1().ConfigMaps("default").Create(short, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "lost"},
			}, metav1.CreateOptions{})
			Expect(err).To(HaveOccurred())
			Expect(cluster.Restart(ctx)).To(Succeed())
		})
	})
})
