//go:build e2e

package mirror_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/patch"
)

// tenants is a server with the source home/pass and many teams.
type tenants struct {
	*stage.Cluster
	mirrors *cluster.KindClient[*mirror.SecretMirror, *mirror.SecretMirrorList]
	source  *corev1.Secret
	binary  string // of the program, once it runs
	address string // of its page
}

func openTenants(ctx context.Context, teams int) *tenants {
	GinkgoHelper()
	s := &tenants{Cluster: stage.Open(ctx, nil)}
	s.Deploy(ctx, mirror.Name, "../../deploy")
	kind, err := mirror.NewKind(stage.Reach(s.Config()))
	Expect(err).NotTo(HaveOccurred())
	s.mirrors = kind.In("")
	core := s.User.CoreV1()
	for i := range teams {
		_, err := core.Namespaces().Create(ctx, namespace(fmt.Sprint("team-", i), "yes"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = core.Namespaces().Create(ctx, namespace("home", "no"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.source, err = core.Secrets("home").Create(ctx, secret("home", "pass", "0"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s.address = listener.Addr().String()
	Expect(listener.Close()).To(Succeed())
	return s
}

// run starts the program as its ServiceAccount.
func (s *tenants) run() *gexec.Session {
	GinkgoHelper()
	if s.binary == "" {
		var err error
		s.binary, err = gexec.Build("github.com/homeostat/homeostat/examples/mirror")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
	}
	program, err := gexec.Start(exec.Command(s.binary, "--kubeconfig="+stage.KubeconfigOf(s.Account),
		"--leader-elect=false", "--listen-addr="+s.address, "--log-format=json"), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { program.Kill().Wait(stage.Patience) })
	return program
}

// copies returns a function that counts the copies with a value.
func (s *tenants) copies(value string) func(context.Context) (int, error) {
	return func(ctx context.Context) (n int, err error) {
		all, err := s.User.CoreV1().Secrets("").List(ctx, metav1.ListOptions{LabelSelector: "homeostat.dev/owner-name=m"})
		if err != nil {
			return 0, err
		}
		for i := range all.Items {
			if string(all.Items[i].Data["is"]) == value {
				n++
			}
		}
		return n, nil
	}
}

// change gives the source a value.
func (s *tenants) change(ctx context.Context, value string) {
	GinkgoHelper()
	var err error
	s.source, err = patch.Merge(ctx, s.User.CoreV1().Secrets, s.source, nil, func(secret *corev1.Secret) {
		secret.Data["is"] = []byte(value)
	})
	Expect(err).NotTo(HaveOccurred())
}

// ready returns the condition Ready of the mirror m, and how many namespaces it
// selects.
func (s *tenants) ready(ctx context.Context) (string, error) {
	m, err := s.mirrors.Get(ctx, "m", metav1.GetOptions{})
	if err != nil || len(m.Status.Conditions) == 0 {
		return "", err
	}
	ready := m.Status.Conditions[0]
	return fmt.Sprintf("%d %s: %s", m.Status.Copies, ready.Reason, ready.Message), nil
}

var _ = It("finishes what a killed process has begun", func(ctx SpecContext) {
	const teams = 500
	s := openTenants(ctx, teams)
	_, err := s.mirrors.Create(ctx, mirrorOf("m", "pass"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for value := range 4 {
		is := fmt.Sprint(value)
		if value > 0 {
			s.change(ctx, is)
		}
		program := s.run()
		Eventually(ctx, s.copies(is), stage.Patience, time.Millisecond).Should(BeNumerically(">", teams/5))
		program.Kill().Wait(stage.Patience)
		done, err := s.copies(is)(ctx)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println("killed with", done, "of", teams, "copies done")
	}
	s.run()
	Eventually(ctx, s.copies("3"), stage.Patience).Should(Equal(teams))
	Eventually(ctx, s.ready, stage.Patience).Should(HavePrefix("500 Copied"))
}, SpecTimeout(5*time.Minute))

var _ = It("goes on in all other namespaces if it may not write in one", func(ctx SpecContext) {
	const teams = 20
	s := openTenants(ctx, teams)
	rules, err := s.User.RbacV1().ClusterRoles().Get(ctx, mirror.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range rules.Rules {
		if rules.Rules[i].Resources[0] == "secrets" {
			rules.Rules[i].Verbs = []string{"get", "list", "watch", "patch", "delete"}
		}
	}
	_, err = s.User.RbacV1().ClusterRoles().Update(ctx, rules, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.User.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "creates-secrets"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	allow := func(team int) {
		_, err := s.User.RbacV1().RoleBindings(fmt.Sprint("team-", team)).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "mirror"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "creates-secrets"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: mirror.Name, Name: mirror.Name}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	for i := range teams - 1 {
		allow(i)
	}
	_, err = s.mirrors.Create(ctx, mirrorOf("m", "pass"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	s.run()
	Eventually(ctx, s.copies("0"), stage.Patience).Should(Equal(teams - 1))
	Eventually(ctx, s.ready, stage.Patience).Should(And(HavePrefix("20 Failed"), ContainSubstring("team-19"), ContainSubstring("forbidden")))
	s.change(ctx, "1")
	Eventually(ctx, s.copies("1"), stage.Patience).Should(Equal(teams - 1))
	response, err := http.Get("http://" + s.address + "/readyz") //nolint:noctx // a probe of a local process
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	Expect(response).To(HaveHTTPStatus(http.StatusOK))
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("/readyz: %s", body)
	allow(teams - 1)
	Eventually(ctx, s.copies("1"), 2*stage.Patience).Should(Equal(teams), "it heals by itself")
	Eventually(ctx, s.ready, stage.Patience).Should(HavePrefix("20 Copied"))
}, SpecTimeout(5*time.Minute))
