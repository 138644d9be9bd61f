//go:build e2e

package examples_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/stage"
)

func TestE2EPrograms(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the example programs on the real server")
}

var cluster *stage.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, nil)
	DeferCleanup(gexec.CleanupBuildArtifacts)
})

// deploy applies everything that an example ships for the server.
func deploy(ctx context.Context, name string) {
	GinkgoHelper()
	folder := filepath.Join(name, "deploy")
	cluster.Deploy(ctx, name, folder)
	manifest, err := os.ReadFile(filepath.Join(folder, "deployment.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.Apply(ctx, string(manifest))).To(Succeed())
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

// readerOf returns the token of an account that may get the page and nothing else.
func readerOf(ctx context.Context, namespace string) string {
	GinkgoHelper()
	reader, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{
		Namespace: namespace, Name: "reader", ClusterRules: []rbacv1.PolicyRule{
			{NonResourceURLs: []string{"/debug/homeostat"}, Verbs: []string{"get"}},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return reader.BearerToken
}

// pageFor returns status and body of the page for the user of a token.
func pageFor(ctx context.Context, address, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/homeostat", http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}

func lease(ctx context.Context, namespace, name string) func() (*coordinationv1.Lease, error) {
	return func() (*coordinationv1.Lease, error) {
		return cluster.User.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

var _ = DescribeTable("An example program under its own ServiceAccount",
	func(ctx SpecContext, name, leaseName string, extra ...string) {
		deploy(ctx, name)
		binary, err := gexec.Build("github.com/homeostat/homeostat/examples/" + name)
		Expect(err).NotTo(HaveOccurred())
		address := freeAddress()
		args := append([]string{
			"--kubeconfig=" + stage.KubeconfigOf(cluster.Account), "--leader-elect-resource-namespace=" + name, "--listen-addr=" + address,
			"--log-format=json", "--leader-elect-identity=one", "--leader-elect=" + strconv.FormatBool(leaseName != ""),
		}, extra...)
		for i := range args {
			args[i] = strings.Replace(args[i], "$TMP", GinkgoT().TempDir(), 1)
		}
		session, err := gexec.Start(exec.Command(binary, args...), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait(stage.Patience) })

		Eventually(answerOf(address, "/livez"), stage.Patience).Should(HavePrefix("200"))
		Eventually(answerOf(address, "/readyz"), stage.Patience).Should(HavePrefix("200"))
		if leaseName != "" {
			Eventually(lease(ctx, name, leaseName), stage.Patience).Should(HaveField("Spec.HolderIdentity", Not(BeNil())))
		}
		Expect(answerOf(address, "/metrics")()).To(ContainSubstring(`controller="` + name + `"`))
		Expect(answerOf(address, "/debug/homeostat")()).To(HavePrefix("401"))
		Expect(pageFor(ctx, address, readerOf(ctx, name))).To(HavePrefix("200"))

		deployment, err := cluster.User.AppsV1().Deployments(name).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		pods := func() (int, error) {
			all, err := cluster.User.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
			return len(all.Items), err
		}
		Eventually(pods, stage.Patience).Should(BeNumerically(">=", *deployment.Spec.Replicas), "the restricted policy admits the Pods of the Deployment")

		session.Signal(syscall.SIGTERM)
		Eventually(session, stage.Patience).Should(gexec.Exit(0))
		Expect(session.Err.Contents()).NotTo(ContainSubstring("forbidden"))
		if leaseName != "" {
			Expect(lease(ctx, name, leaseName)()).To(HaveField("Spec.HolderIdentity", BeNil()), "released")
		}
	},
	Entry("ingress-per-service", "ingress-per-service", "ingress-per-service-member-one", SpecTimeout(5*time.Minute)),
	Entry("configmap-from-crs", "configmap-from-crs", "configmap-from-crs", SpecTimeout(5*time.Minute)),
	Entry("mirror", "mirror", "mirror", SpecTimeout(5*time.Minute)),
	Entry("namespace-defaults", "namespace-defaults", "namespace-defaults",
		"--policy=namespace-defaults/deploy/policy.yaml",
		SpecTimeout(5*time.Minute)),
	Entry("pod-runtime", "pod-runtime", "pod-runtime", SpecTimeout(5*time.Minute)),
	Entry("website", "website", "website", "--cdn=$TMP", SpecTimeout(5*time.Minute)),
	Entry("podlog, where no replica has to lead", "podlog", "", SpecTimeout(5*time.Minute)),
	Entry("dns-zone, where no replica has to lead", "dns-zone", "", "--skeleton=dns-zone/deploy/skeleton",
		"--origin=svc.example.com.", "--zone=$TMP/db.svc.example.com",
		SpecTimeout(5*time.Minute)),
)
