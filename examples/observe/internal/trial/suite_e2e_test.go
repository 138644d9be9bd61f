//go:build e2e

package trial_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

func TestE2EObserve(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "observe on the real server")
}

// patience is how long anything may take on a busy machine.
const patience = time.Minute

var (
	cluster *e2e.Cluster
	user    kubernetes.Interface
	binary  string // observe
	tools   string // a folder with kubectl and kubectl-observe
	scripts string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = e2e.Start(ctx, &e2e.Options{Scheduler: true, Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	config := cluster.Config()
	config.QPS = -1
	user, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	binary, err = gexec.Build("github.com/homeostat/homeostat/examples/observe")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
	tools, err = os.MkdirTemp("", "observe-tools-") // the suite's, not a spec's
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(tools)).To(Succeed()) })
	controlplane, err := filepath.Abs("../../../../bin/controlplane")
	Expect(err).NotTo(HaveOccurred())
	kubectl := fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", controlplane)
	Expect(os.WriteFile(filepath.Join(tools, "kubectl"), []byte(kubectl), 0o755)).To(Succeed())
	Expect(os.Symlink(binary, filepath.Join(tools, "kubectl-observe"))).To(Succeed())
	scripts, err = filepath.Abs("../../scripts")
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute))

// command returns a command with kubectl in its PATH, in a folder of its own,
// against the cluster of a kubeconfig.
func command(kubeconfig, program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = GinkgoT().TempDir()
	c.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig)
	return c
}

// started starts a command, which ends with the spec.
func started(c *exec.Cmd) *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(c, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(patience) })
	return session
}

// observe starts observe as the administrator. It does not listen, since specs
// may run beside each other, unless args say so.
func observe(args ...string) *gexec.Session {
	GinkgoHelper()
	return started(command(cluster.Kubeconfig(), binary, append([]string{"--listen-addr="}, args...)...))
}

// observed runs observe until it ends, and returns the session.
func observed(code int, args ...string) *gexec.Session {
	GinkgoHelper()
	session := observe(args...)
	Eventually(session, patience).Should(gexec.Exit(code))
	return session
}

func out(s *gexec.Session) string  { return string(s.Out.Contents()) }
func logs(s *gexec.Session) string { return string(s.Err.Contents()) }

func namespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := cluster.Namespace(ctx, "observe-")
	Expect(err).NotTo(HaveOccurred())
	return name
}

// service creates a Service with one port.
func service(ctx context.Context, namespace, name string) *corev1.Service {
	GinkgoHelper()
	s, err := user.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return s
}

func removeService(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(user.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// kubeconfigOf writes a kubeconfig with the token of an account.
func kubeconfigOf(config *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)).To(Succeed())
	return path
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// gbytesSay matches literal text in the output that has not been read yet.
func gbytesSay(format string, args ...any) OmegaMatcher {
	return gbytes.Say(regexp.QuoteMeta(fmt.Sprintf(format, args...)))
}

// answerOf returns a function that returns status and body of a GET.
func answerOf(address, path string) func() (string, error) {
	return func() (string, error) {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		var body [1 << 16]byte
		n, _ := response.Body.Read(body[:])
		return fmt.Sprintf("%d %s", response.StatusCode, body[:n]), nil
	}
}
