//go:build e2e

package dnszone_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/dnszone"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
)

func TestE2EDNSZone(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "dns-zone on the real server")
}

var (
	cluster *stage.Cluster
	binary  string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, &e2e.Options{Flags: []string{"kube-apiserver:--service-cluster-ip-range=10.96.0.0/16"}})
	cluster.Deploy(ctx, dnszone.Name, "../../deploy")
	var err error
	binary, err = gexec.Build("github.com/homeostat/homeostat/examples/dns-zone")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// A site is a namespace and a zone file.
type site struct{ namespace, path string }

func newSite(ctx context.Context) *site {
	GinkgoHelper()
	return &site{cluster.TemporaryNamespace(ctx), zone(GinkgoT().TempDir()).Path}
}

// run starts the program with the shipped rights until the end of the spec.
func (s *site) run() *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(binary, "--kubeconfig="+stage.KubeconfigOf(cluster.Account), "--listen-addr=",
		"--zone="+s.path, "--origin=example.com.", "--resync=1s"), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(stage.Patience) })
	return session
}

func (s *site) create(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := cluster.User.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { // other specs must not meet it
		err := cluster.User.CoreV1().Services(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsNotFound)))
	})
}

func (s *site) goes(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(cluster.User.CoreV1().Services(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

var (
	serialIn = regexp.MustCompile(`^@ IN SOA ns\.example\.com\. admin\.example\.com\. (\d+) 1h 15m 30d 1h\n$`)
	recordIn = regexp.MustCompile(`^(\S+)\.example\.com\. 60 IN A (\S+) ; managed-by=dns-zone \S+\n$`)
)

// look returns the serial and the records of the site's namespace, and fails if
// the file is not whole.
func (s *site) look() (serial string, records map[string]string) {
	GinkgoHelper()
	text, err := os.ReadFile(s.path)
	Expect(err).NotTo(HaveOccurred())
	lines := strings.SplitAfter(string(text), "\n")
	foreign := strings.SplitAfter(skeleton, "\n")
	Expect(len(lines)).To(BeNumerically(">=", len(foreign)), "torn: %s", text)
	Expect(lines[1:len(foreign)-1]).To(Equal(foreign[1:len(foreign)-1]), "torn: %s", text)
	match := serialIn.FindStringSubmatch(lines[0])
	Expect(match).To(HaveLen(2), "torn: %s", text)
	records = map[string]string{}
	for _, line := range lines[len(foreign)-1 : len(lines)-1] {
		record := recordIn.FindStringSubmatch(line)
		Expect(record).To(HaveLen(3), "torn: %s", text)
		if name, ours := strings.CutSuffix(record[1], "."+s.namespace); ours {
			records[name] = record[2]
		}
	}
	Expect(lines[len(lines)-1]).To(BeEmpty(), "torn: %s", text)
	return match[1], records
}

func (s *site) records() map[string]string {
	_, records := s.look()
	return records
}

// services returns the addresses of the Services of the namespace, by name.
func (s *site) services(ctx context.Context) map[string]string {
	GinkgoHelper()
	all, err := cluster.User.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	addresses := map[string]string{}
	for _, service := range all.Items {
		addresses[service.Name] = service.Spec.ClusterIP
	}
	return addresses
}

var _ = Describe("dns-zone under the shipped rights", func() {
	It("never tears the file under kill -9, keeps foreign records, and ends with what there is", func(ctx SpecContext) {
		const kills, perKill = 6, 10
		s := newSite(ctx)
		for k := range kills {
			for i := range perKill {
				s.create(ctx, fmt.Sprintf("s%d-%d", k, i))
			}
			if k > 0 {
				s.goes(ctx, fmt.Sprintf("s%d-0", k-1))
			}
			before, _ := s.look()
			session := s.run()
			Eventually(ctx, func() string {
				serial, _ := s.look()
				return serial
			}, stage.Patience, time.Millisecond).ShouldNot(Equal(before))
			session.Kill().Wait(stage.Patience)
			s.look()
		}
		last := s.run()
		Eventually(ctx, s.records, stage.Patience).Should(Equal(s.services(ctx)))
		last.Signal(syscall.SIGTERM)
		Eventually(last, stage.Patience).Should(gexec.Exit(0))
	}, SpecTimeout(3*time.Minute))

	It("removes exactly one record of what goes while it is down, and changes the serial only then", func(ctx SpecContext) {
		s := newSite(ctx)
		for _, name := range []string{"a", "b", "c"} {
			s.create(ctx, name)
		}
		first := s.run()
		Eventually(ctx, s.records, stage.Patience).Should(Equal(s.services(ctx)))
		first.Kill().Wait(stage.Patience)
		s.goes(ctx, "b")
		text, err := os.ReadFile(s.path)
		Expect(err).NotTo(HaveOccurred())
		second := s.run()
		Eventually(ctx, s.records, stage.Patience).Should(Equal(s.services(ctx)))
		Expect(s.records()).To(HaveLen(2))
		after, err := os.ReadFile(s.path)
		Expect(err).NotTo(HaveOccurred())
		serial := func(text []byte) (number int) {
			_, err := fmt.Sscanf(string(text), "@ IN SOA ns.example.com. admin.example.com. %d", &number)
			Expect(err).NotTo(HaveOccurred())
			return number
		}
		Expect(serial(after)).To(Equal(serial(text) + 1))
		Expect(strings.Count(string(after), "\n")).To(Equal(strings.Count(string(text), "\n") - 1))

		info, err := os.Stat(s.path)
		Expect(err).NotTo(HaveOccurred())
		Consistently(ctx, func() bool {
			now, err := os.Stat(s.path)
			return err == nil && os.SameFile(info, now)
		}, 3*time.Second).Should(BeTrue(), "several resyncs write nothing")
		Expect(os.WriteFile(s.path, []byte(skeleton), 0o600)).To(Succeed())
		Eventually(ctx, s.records, stage.Patience).Should(Equal(s.services(ctx)), "an edit is undone")
		second.Signal(syscall.SIGTERM)
		Eventually(second, stage.Patience).Should(gexec.Exit(0))
	}, SpecTimeout(3*time.Minute))

	It("says what is wrong with its command line or its file", func() {
		session, err := gexec.Start(exec.Command(binary, "--kubeconfig="+stage.KubeconfigOf(cluster.Account),
			"--zone="+filepath.Join(GinkgoT().TempDir(), "none")), nil, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Eventually(session, stage.Patience).Should(gexec.Exit(1))
		Expect(string(session.Err.Contents())).To(And(ContainSubstring("File.Origin"), ContainSubstring("no such file")))
	})
})
