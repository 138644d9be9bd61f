//go:build e2e

package fence_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader/fence"
)

// fixture is a namespace with a service account, its Pods a and b, and a
// policy.
type fixture struct {
	*WithT
	cluster   *e2e.Cluster
	admin     kubernetes.Interface
	namespace string
	a, b      kubernetes.Interface // with tokens that are bound to the Pods
	late      *late                // between a and the server
}

func newFixture(t *testing.T, cluster *e2e.Cluster, o fence.Options) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), cluster: cluster, late: &late{}}
	f.admin = f.client(cluster.Config())
	ctx := t.Context()
	ns, err := f.admin.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fence-"}}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	f.namespace = ns.Name
	_, err = cluster.ServiceAccount(ctx, e2e.ServiceAccount{
		Namespace: f.namespace, Name: "replicas", Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"*"}},
		},
	})
	f.Expect(err).NotTo(HaveOccurred())
	bound := f.bound(ctx, "a")
	bound.Wrap(f.late.wrap)
	f.a, f.b = f.client(bound), f.client(f.bound(ctx, "b"))

	o.Namespace, o.Lease, o.ServiceAccount, o.Resources = f.namespace, "test", "replicas", []string{"configmaps", "leases.coordination.k8s.io"}
	manifest, err := fence.YAML(o)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(cluster.Apply(ctx, manifest)).To(Succeed())
	return f
}

func (f *fixture) client(config *rest.Config) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	return client
}

// bound makes a Pod and returns a config with a token that is bound to it.
func (f *fixture) bound(ctx context.Context, name string) *rest.Config {
	pod, err := f.admin.CoreV1().Pods(f.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "replicas", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	token, err := f.admin.CoreV1().ServiceAccounts(f.namespace).CreateToken(ctx, "replicas", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(f.cluster.Config())
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}

// hold makes holder the holder of a Lease. It writes as the administrator, who
// is not fenced.
func (f *fixture) hold(t *testing.T, name, holder string, labels map[string]string) {
	t.Helper()
	leases := f.admin.CoordinationV1().Leases(f.namespace)
	lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	}
	f.Expect(err).NotTo(HaveOccurred())
	lease.Spec.HolderIdentity = &holder
	if holder == "" {
		lease.Spec.HolderIdentity = nil
	}
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

// write creates a ConfigMap as the given client.
func (f *fixture) write(t *testing.T, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps(f.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}, metav1.CreateOptions{})
	return err
}

// allowed waits until the replica may write.
func (f *fixture) allowed(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	f.Eventually(func() error { return f.write(t, client) }, 20*time.Second, time.Millisecond).Should(Succeed())
}

func (f *fixture) refused(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	f.Eventually(func() error { return f.write(t, client) }, 20*time.Second, time.Millisecond).Should(
		And(MatchError(ContainSubstring("may not write: lease")), MatchError(apierrors.IsForbidden, "IsForbidden")))
}

// late is a transport that delays requests while it is shut.
type late struct {
	mu   sync.Mutex
	shut chan struct{} // nil while it is open
	held chan struct{} // one for each request
}

func (l *late) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		l.mu.Lock()
		shut, held := l.shut, l.held
		l.mu.Unlock()
		if shut != nil {
			held <- struct{}{}
			<-shut
		}
		return next.RoundTrip(req)
	})
}

func (l *late) close() (held chan struct{}, open func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.held = make(chan struct{}), make(chan struct{}, 1)
	return l.held, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.shut)
		l.shut = nil
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func TestE2EContract(t *testing.T) {
	cluster, err := e2e.Start(t.Context(), nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(cluster.Stop()).To(Succeed()) })
	in := func(o fence.Options, test func(t *testing.T, f *fixture)) func(t *testing.T) {
		return func(t *testing.T) {
			f := newFixture(t, cluster, o)
			test(t, f)
		}
	}
	contract.Check(t, contract.Tests{
		"A write of a replica that does not hold the Lease is refused, however late it arrives.": in(fence.Options{}, refusesOthers),
		"With Shards, a write of a replica whose membership has ended is refused too, for an " +
			"hour.": in(fence.Options{Shards: true}, refusesPastMembers),
		"A write of the service account from outside a Pod is refused too.": in(fence.Options{}, refusesWithoutPod),
		"Only writes of the service account to the Resources are checked: all others pass as before, including those to " +
			"the records of the election.": in(fence.Options{}, leavesOthersAlone),
		"The policy has no effect while the Lease does not exist.": in(fence.Options{}, needsTheLease),
	})
	t.Run("how late it is", in(fence.Options{}, measure))
}

func refusesOthers(t *testing.T, f *fixture) {
	f.hold(t, "test", "a_12345678", nil)
	f.refused(t, f.b)
	f.allowed(t, f.a)

	held, open := f.late.close()
	answer := make(chan error, 1)
	go func() { answer <- f.write(t, f.a) }() // as a leader that is cut off sends it
	<-held
	f.hold(t, "test", "b_87654321", nil)
	f.allowed(t, f.b)
	open()
	f.Expect(<-answer).To(MatchError(ContainSubstring(`pod "a" may not write: lease "` + f.namespace + `/test" is held by "b_87654321"`)))

	f.hold(t, "test", "", nil) // released
	f.refused(t, f.b)
	f.hold(t, "test", "ab_12345678", nil) // of a Pod whose name begins with that of a
	f.refused(t, f.a)
}

func refusesPastMembers(t *testing.T, f *fixture) {
	labels := map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	f.hold(t, "test-member-a", "a_12345678.1", labels)
	f.hold(t, "test-member-b", "", labels)
	f.refused(t, f.b)
	f.allowed(t, f.a)
	f.hold(t, "test-member-b", "b_12345678.1", labels)
	f.allowed(t, f.b)
	held, open := f.late.close()
	answer := make(chan error, 1)
	go func() { answer <- f.write(t, f.a) }()
	<-held
	f.hold(t, "test-member-a", "", labels) // as the others do when its lease has expired
	f.hold(t, "test-member-b", "", labels)
	f.refused(t, f.b) // then the policy has seen the end of a, too
	open()
	f.Expect(<-answer).To(MatchError(ContainSubstring(`pod "a" may not write: lease "` + f.namespace + `/test-member-a" is held by ""`)))
	f.hold(t, "test-member-b", "b_12345678.1", labels)
	f.refused(t, f.a)
	f.allowed(t, f.b)

	leases := f.b.CoordinationV1().Leases(f.namespace)
	f.hold(t, "test-member-b", "", labels)
	f.refused(t, f.b)
	for _, name := range []string{"test", "test-member-b", "test-slot-1"} {
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		f.Expect(err == nil || apierrors.IsAlreadyExists(err)).To(BeTrue(), "%s: %v", name, err)
	}
}

func refusesWithoutPod(t *testing.T, f *fixture) {
	f.hold(t, "test", "a_12345678", nil)
	f.refused(t, f.b)
	config, err := f.cluster.As(t.Context(), f.namespace, "replicas")
	f.Expect(err).NotTo(HaveOccurred())
	f.refused(t, f.client(config))
}

func leavesOthersAlone(t *testing.T, f *fixture) {
	f.hold(t, "test", "a_12345678", nil)
	f.refused(t, f.b)
	f.Expect(f.write(t, f.admin)).To(Succeed(), "another user")
	_, err := f.b.CoreV1().Secrets(f.namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred(), "another resource")
	leases := f.b.CoordinationV1().Leases(f.namespace)
	_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "of-the-work"}}, metav1.CreateOptions{})
	f.Expect(err).To(MatchError(ContainSubstring("may not write")), "a Lease that is not the election's")
	own, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	own.Spec.HolderIdentity = new("b_12345678")
	_, err = leases.Update(t.Context(), own, metav1.UpdateOptions{})
	f.Expect(err).NotTo(HaveOccurred(), "the election's")
	f.allowed(t, f.b)
}

func needsTheLease(t *testing.T, f *fixture) {
	f.hold(t, "test", "a_12345678", nil)
	f.refused(t, f.b)
	f.Expect(f.admin.CoordinationV1().Leases(f.namespace).Delete(t.Context(), "test", metav1.DeleteOptions{})).To(Succeed())
	f.allowed(t, f.b)
	f.Expect(f.write(t, f.admin)).To(Succeed())
	_, err := f.b.CoordinationV1().Leases(f.namespace).Create(t.Context(),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "test"}}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred(), "a replica takes it again")
	f.refused(t, f.b)
}

// measure logs for how long after a handover the old leader's writes still
// pass, and for how long the new leader's are refused.
func measure(t *testing.T, f *fixture) {
	f.hold(t, "test", "a_12345678", nil)
	f.refused(t, f.b)
	replicas := []kubernetes.Interface{f.a, f.b}
	var passed, waited []time.Duration
	for round := range 50 {
		before, after := replicas[round%2], replicas[(round+1)%2]
		f.hold(t, "test", []string{"b_12345678", "a_12345678"}[round%2], nil)
		changed := time.Now()
		last := changed
		for f.write(t, before) == nil {
			last = time.Now()
		}
		passed = append(passed, last.Sub(changed))
		f.allowed(t, after)
		waited = append(waited, time.Since(changed))
	}
	slices.Sort(passed)
	slices.Sort(waited)
	t.Logf("writes of the old leader passed for %v (median), %v (longest); a write of the new one had passed after %v, %v",
		passed[25], passed[49], waited[25], waited[49])
	f.Expect(passed[49]).To(BeNumerically("<", 15*time.Second), "a lease duration")
}
