//go:build e2e

package program_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/e2e"
)

func TestE2EPrograms(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the example programs on the real server")
}

const patience = time.Minute

var (
	cluster *e2e.Cluster
	user    kubernetes.Interface
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	user, err = kubernetes.NewForConfig(cluster.Config())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// deploy applies everything in an example's deploy folder that is for the
// server.
func deploy(ctx context.Context, name string) {
	GinkgoHelper()
	for _, file := range []string{"crd.yaml", "namespace.yaml", "rbac.yaml", "deployment.yaml"} {
		manifest, err := os.ReadFile(filepath.Join("..", "..", name, "deploy", file))
		if os.IsNotExist(err) && file == "crd.yaml" {
			continue
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
	}
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

// answerOf returns a function that returns status and body of a GET.
func answerOf(address, path string) func() (string, error) {
	return func() (string, error) {
		response, err := http.Get("http://" + address + path) //nolint:noctx // a probe of a local process
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return fmt.Sprintf("%d %s", response.StatusCode, body), err
	}
}

func lease(ctx context.Context, namespace, name string) func() (*coordinationv1.Lease, error) {
	return func() (*coordinationv1.Lease, error) {
		return user.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

var _ = DescribeTable("An example program under its own ServiceAccount",
	func(ctx SpecContext, name, leaseName string, extra ...string) {
		deploy(ctx, name)
		account, err := cluster.As(ctx, name, name)
		Expect(err).NotTo(HaveOccurred())
		binary, err := gexec.Build("github.com/homeostat/homeostat/examples/" + name)
		Expect(err).NotTo(HaveOccurred())
		address := freeAddress()
		args := append([]string{
			"--kubeconfig=" + kubeconfigOf(account), "--leader-elect", "--namespace=" + name, "--listen-addr=" + address,
			"--log-format=json", "--identity=one",
		}, extra...)
		session, err := gexec.Start(exec.Command(binary, args...), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait(patience) })

		Eventually(answerOf(address, "/livez"), patience).Should(HavePrefix("200"))
		Eventually(answerOf(address, "/readyz"), patience).Should(HavePrefix("200"))
		Eventually(lease(ctx, name, leaseName), patience).Should(HaveField("Spec.HolderIdentity", Not(BeNil())))
		Expect(answerOf(address, "/metrics")()).To(ContainSubstring(`controller="` + name + `"`))
		Expect(answerOf(address, "/debug/homeostat")()).To(HavePrefix("200"))

		pods := func() (int, error) {
			all, err := user.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
			return len(all.Items), err
		}
		Eventually(pods, patience).Should(BeNumerically(">=", 2), "the restricted policy admits the Pods of the Deployment")

		session.Signal(syscall.SIGTERM)
		Eventually(session, patience).Should(gexec.Exit(0))
		Expect(session.Err.Contents()).NotTo(ContainSubstring("forbidden"))
		Expect(lease(ctx, name, leaseName)()).To(HaveField("Spec.HolderIdentity", BeNil()), "released")
	},
	Entry("ingress-per-service", "ingress-per-service", "ingress-per-service-member-one", SpecTimeout(5*time.Minute)),
	Entry("configmap-from-crs", "configmap-from-crs", "configmap-from-crs", SpecTimeout(5*time.Minute)),
	Entry("namespace-defaults", "namespace-defaults", "namespace-defaults",
		"--policy=../../namespace-defaults/deploy/policy.yaml",
		SpecTimeout(5*time.Minute)),
)
