//go:build e2e

package leader_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/proof/e2e"
	"github.com/homeostat/homeostat/leader/fence"
)

// fencedByServer has replicas without a fence of their own, one of which is paused, or behind a proxy that delivers its
// writes when the other leads. Beside them are the same tests without the policy, which see those writes.
func fencedByServer(t *testing.T, c *e2e.Cluster) {
	t.Run("of a leader that was paused", func(t *testing.T) {
		g, p, pods := NewWithT(t), newPaper(t, c.Config()), map[string]*rest.Config{}
		p.police(t, c, pods)
		a := startReplica(t, "a", kubeconfigOf(t, pods["a"]), p.namespace, unfencedVariable+"=1")
		p.awaits(t, "a")
		b := startReplica(t, "b", kubeconfigOf(t, pods["b"]), p.namespace, unfencedVariable+"=1")
		g.Expect(a.cmd.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		b.says(t, "leading")
		p.awaits(t, "b")
		g.Expect(a.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		g.Expect(a.says(t, "over")).NotTo(HavePrefix("over: stopping"))
		g.Expect(p.reigns(t)).To(Equal([]string{"a", "b"}))
	})
	t.Run("of a leader whose network is slow", func(t *testing.T) {
		g, p, pods := NewWithT(t), newPaper(t, c.Config()), map[string]*rest.Config{}
		p.police(t, c, pods)
		between, address := startProxy(t, pods["a"])
		a := startReplica(t, "a", kubeconfigOf(t, pods["a"]), p.namespace, serverVariable+"="+address, unfencedVariable+"=1")
		p.awaits(t, "a")
		b := startReplica(t, "b", kubeconfigOf(t, pods["b"]), p.namespace, unfencedVariable+"=1")
		between.mu.Lock()
		between.hold = holdRequests
		between.mu.Unlock()
		b.says(t, "leading")
		p.awaits(t, "b")
		between.mu.Lock()
		between.hold = 0
		close(between.open)
		between.mu.Unlock()
		g.Expect(strings.HasPrefix(a.says(t, "over"), "over: ")).To(BeTrue())
		g.Expect(p.reigns(t)).To(Equal([]string{"a", "b"}))
	})
}

// police makes Pods a and b, tokens that are bound to them, and the policy, and waits until it is in force.
func (p *paper) police(t *testing.T, c *e2e.Cluster, pods map[string]*rest.Config) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	_, err := c.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: p.namespace, Name: "replicas", Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		{Verbs: []string{"*"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"a", "b"} {
		pods[name] = p.bound(ctx, g, c.Config(), name)
	}
	manifest, err := fence.YAML(fence.Options{
		Namespace: p.namespace, Lease: "test", ServiceAccount: "replicas", Resources: []string{"configmaps"},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Apply(ctx, manifest)).To(Succeed())
	lease, err := p.client.CoordinationV1().Leases(p.namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "test"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("z_12345678")},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	b, err := kubernetes.NewForConfig(pods["b"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := b.CoreV1().ConfigMaps(p.namespace).Patch(ctx, "paper", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		return err
	}, "20s", "10ms").Should(MatchError(ContainSubstring("may not write: lease")))
	lease.Spec.HolderIdentity = nil
	_, err = p.client.CoordinationV1().Leases(p.namespace).Update(ctx, lease, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

// bound makes a Pod and returns a config with a token that is bound to it.
func (p *paper) bound(ctx context.Context, g *WithT, admin *rest.Config, name string) *rest.Config {
	pod, err := p.client.CoreV1().Pods(p.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "replicas", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token, err := p.client.CoreV1().ServiceAccounts(p.namespace).CreateToken(ctx, "replicas", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}

// kubeconfigOf writes a kubeconfig with the token of config.
func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)).To(Succeed())
	return file
}
