//go:build e2e

package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
)

func TestE2EReplicas(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "replicas of ingress-per-service on the real server")
}

const (
	name     = "ingress-per-service"
	username = "system:serviceaccount:" + name + ":" + name
	teams    = 24 // namespaces, each with one Service
)

var (
	cluster  *stage.Cluster
	binary   string
	auditLog string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	auditLog = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	Expect(os.WriteFile(policy, []byte(auditPolicy), 0o600)).To(Succeed())
	cluster = stage.Open(ctx, &e2e.Options{Flags: []string{
		"kube-apiserver:--service-cluster-ip-range=10.96.0.0/16",
		"kube-apiserver:--audit-log-path=" + auditLog, "kube-apiserver:--audit-policy-file=" + policy,
	}})
	cluster.Deploy(ctx, name, "deploy")
	var err error
	binary, err = gexec.Build("github.com/homeostat/homeostat/examples/" + name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// A process is a replica with a token of its own.
type process struct {
	*gexec.Session
	writer string // in the records
}

func replica(ctx context.Context, identity string) process {
	GinkgoHelper()
	account, err := cluster.As(ctx, name, name)
	Expect(err).NotTo(HaveOccurred())
	session, err := gexec.Start(exec.Command(binary, "--kubeconfig="+stage.KubeconfigOf(account), "--leader-elect",
		"--leader-elect-resource-namespace="+name, "--leader-elect-identity="+identity, "--listen-addr="), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
	client, err := kubernetes.NewForConfig(account)
	Expect(err).NotTo(HaveOccurred())
	self, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return process{session, token(&self.Status.UserInfo)}
}

// A team has a Service, and a client that breaks its Ingress again and again,
// each time that it is whole.
type team struct {
	namespace string
	damages   int
	longest   time.Duration // that it was broken
}

func (t *team) live(ctx context.Context, end <-chan struct{}) {
	defer GinkgoRecover()
	_, err := cluster.User.CoreV1().Services(t.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"ingress.homeostat.dev/expose": "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	t.awaitWhole(ctx)
	for pace := time.NewTicker(50 * time.Millisecond); ; <-pace.C {
		select {
		case <-end:
			return
		default:
			t.damages++
			t.damage(ctx)
			began := time.Now()
			t.awaitWhole(ctx)
			t.longest = max(t.longest, time.Since(began))
		}
	}
}

func (t *team) damage(ctx context.Context) {
	edit := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/rules/0/host","value":"broken-%d.example.com"}]`, t.damages)
	_, err := cluster.User.NetworkingV1().Ingresses(t.namespace).
		Patch(ctx, "web", types.JSONPatchType, edit, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (t *team) awaitWhole(ctx context.Context) {
	Eventually(ctx, func(ctx context.Context) (string, error) {
		i, err := cluster.User.NetworkingV1().Ingresses(t.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return hostOf(i), nil
	}, stage.Patience, 20*time.Millisecond).Should(Equal("web." + t.namespace + ".example.com"))
}

func hostOf(i *networkingv1.Ingress) string { return i.Spec.Rules[0].Host }

// owners counts the replicas that have written since a moment.
func owners(since time.Time) map[string]int {
	writers := map[string]int{}
	for _, r := range recordsOf(auditLog, username) {
		if r.Received.After(since) {
			writers[r.writer()]++
		}
	}
	return writers
}

var _ = Describe("Three replicas", func() {
	It("repair each damage by one write, through kill -9 and a rolling restart", func(ctx SpecContext) {
		var replicas []process
		for i := range 3 {
			replicas = append(replicas, replica(ctx, fmt.Sprint("first-", i)))
		}
		end, all := make(chan struct{}), make([]*team, teams)
		var living sync.WaitGroup
		for i := range all {
			namespace, err := cluster.Namespace(ctx, "team")
			Expect(err).NotTo(HaveOccurred())
			all[i] = &team{namespace: namespace}
			living.Go(func() { all[i].live(ctx, end) })
		}
		Eventually(ctx, func() int { return len(owners(time.Time{})) }, stage.Patience).Should(Equal(3), "each has its part")

		k := kill{replicas[0].writer, time.Now()}
		replicas[0].Kill().Wait(stage.Patience)
		replicas[0] = replica(ctx, "second-0")
		Eventually(ctx, func() int { return len(owners(time.Time{})) }, stage.Patience).Should(Equal(4), "the new one has a part")
		for i := range replicas {
			next := replica(ctx, fmt.Sprint("third-", i))
			replicas[i].Signal(syscall.SIGTERM)
			Eventually(ctx, replicas[i], stage.Patience).Should(gexec.Exit(0))
			replicas[i] = next
		}
		rolled := time.Now()
		Eventually(ctx, func() int { return len(owners(rolled)) }, stage.Patience).Should(Equal(3))
		close(end)
		living.Wait()
		judge(all, k)
	}, SpecTimeout(5*time.Minute))
})

// A kill ends a process at a moment, or a little later.
type kill struct {
	writer string
	at     time.Time
}

// strikes reports whether the process may have died before it had the answer.
// The server may find its request later still.
func (k kill) strikes(r *record) bool { return r.writer() == k.writer && r.Answered.After(k.at) }

// judge checks the writers in the audit log.
func judge(teams []*team, k kill) {
	GinkgoHelper()
	records := map[string][]record{}
	writes := 0
	var refused []string
	for _, r := range recordsOf(auditLog, username) {
		records[r.Object.Namespace] = append(records[r.Object.Namespace], r)
	}
	damages, longest, changes := 0, time.Duration(0), 0
	for _, t := range teams {
		damages, longest = damages+t.damages, max(longest, t.longest)
		good, struck := 0, 0
		var last record
		for _, r := range records[t.namespace] {
			switch {
			case r.good():
				good++
			case k.strikes(&r):
				struck++ // done or not, the answer was lost
			default:
				refused = append(refused, fmt.Sprintf("%v to %v, %s %s/%s by %s: %d %s", r.Received, r.Answered, r.Verb,
					t.namespace, r.Object.Name, r.writer(), r.Response.Code, r.Response.Message))
			}
			if last.Verb != "" && last.writer() != r.writer() {
				changes++
				Expect(r.Received).To(BeTemporally(">", last.Answered), "%s: two replicas write at once", t.namespace)
			}
			last = r
		}
		writes += good
		Expect(good).To(And(BeNumerically("<=", 1+t.damages), BeNumerically(">=", 1+t.damages-struck)), "%s: the create, and one write for each damage", t.namespace)
	}
	Expect(refused).To(BeEmpty(), "%s was killed at %v", k.writer, k.at)
	AddReportEntry("replicas", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d damages, %d writes, %d changes of owner, longest outage %v", damages, writes, changes, longest.Round(time.Millisecond)))
}
