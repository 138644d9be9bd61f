//go:build e2e

package leader_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader/fence"
)

// fencedByServer has replicas without a fence of their own, one of which is
// paused, or behind a proxy that delivers its writes when the other leads.
// Beside them are the same tests without the policy, which see those writes.
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
		release := between.holdBack()
		b.says(t, "leading")
		p.awaits(t, "b")
		release()
		g.Expect(strings.HasPrefix(a.says(t, "over"), "over: ")).To(BeTrue())
		g.Expect(p.reigns(t)).To(Equal([]string{"a", "b"}))
	})
}

// heldBack is for how long a write is on its way.
const heldBack = 20 * time.Second

// holdBack holds requests up until release is called, and for heldBack at
// least.
func (p *proxy) holdBack() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = holdRequests
	enough := time.After(heldBack)
	return func() {
		<-enough
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hold = 0
		close(p.open)
	}
}

// shardsFencedByServer is fencedByServer for members of shards: what one of
// them writes in a slot that another has is refused by the policy, and is
// written without it.
func shardsFencedByServer(t *testing.T, c *e2e.Cluster) {
	for _, how := range []string{"paused", "behind a slow network"} {
		for _, policy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, policy=%v", how, policy), func(t *testing.T) {
				t.Parallel()
				lateMember(t, c, how == "paused", policy)
			})
		}
	}
}

func lateMember(t *testing.T, c *e2e.Cluster, paused, policy bool) {
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	namespace, since := slotsOnPaper(t, client)
	history := &book{writers: map[string][]string{}, more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { history.read(ctx, t, client, namespace, since) })
	defer reading.Wait()
	defer stop()

	pods := map[string]*rest.Config{"a": c.Config(), "b": c.Config()}
	if policy {
		(&paper{client: client, namespace: namespace}).policeShards(t, c, pods)
	}
	between, address := startProxy(t, pods["a"])
	kubeconfigs := map[string]string{"a": c.Kubeconfig(), "b": c.Kubeconfig()}
	if policy {
		kubeconfigs["a"], kubeconfigs["b"] = kubeconfigOf(t, pods["a"]), kubeconfigOf(t, pods["b"])
	}
	env := []string{shardsVariable + "=1", unfencedVariable + "=1"}
	a := startReplica(t, "a", kubeconfigs["a"], namespace, append(env, serverVariable+"="+address)...)
	history.settles(t, map[string]*process{"a": a})
	b := startReplica(t, "b", kubeconfigs["b"], namespace, env...)
	history.settles(t, map[string]*process{"a": a, "b": b})
	if paused {
		g.Expect(a.cmd.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		history.settles(t, map[string]*process{"b": b})
		g.Expect(a.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
	} else {
		release := between.holdBack()
		history.settles(t, map[string]*process{"b": b})
		release()
	}
	if !policy {
		g.Eventually(history.doubles).WithTimeout(time.Minute).ShouldNot(BeEmpty(), "the test can fail")
		return
	}
	history.settles(t, map[string]*process{"a": a, "b": b}) // a is a member again when its last writes have been refused
	g.Expect(history.doubles()).To(BeEmpty())
}

// police makes Pods a and b, tokens that are bound to them, and the policy, and
// waits until it is in force.
func (p *paper) police(t *testing.T, c *e2e.Cluster, pods map[string]*rest.Config) {
	t.Helper()
	lease := p.applyPolicy(t, c, pods, fence.Options{})
	lease.Spec.HolderIdentity = nil
	_, err := p.client.CoordinationV1().Leases(p.namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// policeShards is police for members of shards.
func (p *paper) policeShards(t *testing.T, c *e2e.Cluster, pods map[string]*rest.Config) {
	t.Helper()
	lease := p.applyPolicy(t, c, pods, fence.Options{Shards: true})
	NewWithT(t).Expect(p.client.CoordinationV1().Leases(p.namespace).Delete(t.Context(), lease.Name, metav1.DeleteOptions{})).To(Succeed())
}

// applyPolicy makes the Pods and the policy, and waits until it is in force by
// the Lease that it returns, of which b is not the holder.
func (p *paper) applyPolicy(
	t *testing.T, c *e2e.Cluster, pods map[string]*rest.Config, o fence.Options,
) *coordinationv1.Lease {
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
	o.Namespace, o.Lease, o.ServiceAccount, o.Resources = p.namespace, "test", "replicas", []string{"configmaps"}
	manifest, err := fence.YAML(o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Apply(ctx, manifest)).To(Succeed())
	record := metav1.ObjectMeta{Name: "test"}
	if o.Shards {
		record.Name = "test-member-b"
		record.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	}
	lease, err := p.client.CoordinationV1().Leases(p.namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: record, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("z_12345678")},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	b, err := kubernetes.NewForConfig(pods["b"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := b.CoreV1().ConfigMaps(p.namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "try-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}, "20s", "10ms").Should(MatchError(ContainSubstring("may not write: lease")))
	return lease
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
