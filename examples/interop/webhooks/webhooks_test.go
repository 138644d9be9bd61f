package webhooks_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/homeostat/homeostat/examples/interop/webhooks"
	"github.com/homeostat/homeostat/internal/apisim"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestTheProgramAnswersWebhooksAndReconciles(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	config := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil, kubeconfig, overHTTP(t, sim)), 0o600)).To(Succeed())
	certificates, port := certify(g, t.TempDir()), freePort(g)

	ended := make(chan int, 1)
	go func() {
		ended <- webhooks.Program().Main([]string{
			"--kubeconfig=" + config, "--listen-addr=",
			"--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(port), "--webhook-cert-dir=" + certificates,
		}, t.Output())
	}()
	ask := func(text string) func() (bool, error) {
		return func() (bool, error) { return review(port, text) }
	}
	g.Eventually(ask("short"), 20*time.Second).Should(BeTrue())
	g.Expect(ask(strings.Repeat("long", 21))()).To(BeFalse())

	maps := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("shop")
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"text": "short"},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (*corev1.ConfigMap, error) { return maps.Get(t.Context(), "m", metav1.GetOptions{}) }, 20*time.Second).
		Should(HaveField("Labels", HaveKey("example.com/has-text")))

	g.Expect(terminate()).To(Succeed())
	g.Eventually(ended, 20*time.Second).Should(Receive(BeZero()))
	_, err = review(port, "short")
	g.Expect(err).To(HaveOccurred(), "it is served no longer")
}

// A conversion webhook: lists need it, and its Service needs a Pod that is
// ready.
func TestTheProgramIsReadyBeforeItsCachesSoThatTheyCanBeFilled(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	certificates, port, probes := certify(g, t.TempDir()), freePort(g), freePort(g)
	readyz := fmt.Sprintf("http://127.0.0.1:%d/readyz", probes)
	var converted atomic.Int32
	inner, err := url.Parse(overHTTP(t, sim))
	g.Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(inner)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/configmaps") {
			if !isReady(readyz) {
				http.Error(w, "conversion webhook failed: no endpoints available for service", http.StatusInternalServerError)
				return
			}
			if _, err := review(port, "any"); err != nil {
				http.Error(w, "conversion webhook failed: "+err.Error(), http.StatusInternalServerError)
				return
			}
			converted.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil, kubeconfig, server.URL), 0o600)).To(Succeed())
	ended := make(chan int, 1)
	go func() {
		ended <- webhooks.Program().Main([]string{
			"--kubeconfig=" + config, "--listen-addr=127.0.0.1:" + strconv.Itoa(probes),
			"--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(port), "--webhook-cert-dir=" + certificates,
		}, t.Output())
	}()
	g.Eventually(func() string { return body(readyz + "?verbose") }, time.Minute).Should(
		ContainSubstring("[+] informer/configmaps: ok"))
	g.Expect(converted.Load()).NotTo(BeZero())
	g.Expect(terminate()).To(Succeed())
	g.Eventually(ended, time.Minute).Should(Receive(BeZero()))
}

// isReady reports whether a Service would send requests to this process.
func isReady(readyz string) bool {
	res, err := http.Get(readyz) //nolint:noctx,gosec // a probe of this process
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// body returns what a probe says.
func body(address string) string {
	res, err := http.Get(address) //nolint:noctx,gosec // a probe of this process
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestWithoutACertificateTheProgramEnds(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	config := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(config, fmt.Appendf(nil, kubeconfig, overHTTP(t, sim)), 0o600)).To(Succeed())
	var said bytes.Buffer
	code := webhooks.Program().Main([]string{"--kubeconfig=" + config, "--listen-addr=", "--webhook-cert-dir=" + t.TempDir()}, &said)
	g.Expect(code).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("tls.crt"))
}

// overHTTP serves the simulated API server on a socket.
func overHTTP(t *testing.T, sim *apisim.Server) string {
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "apisim"}) },
		Transport:     sim.Config("program").Transport,
		FlushInterval: -1,
	})
	t.Cleanup(server.Close)
	return server.URL
}

// certify writes a certificate of 127.0.0.1 to a folder, and returns it.
func certify(g *WithT, folder string) string {
	crt, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), crt, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	return folder
}

func freePort(g *WithT) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.Close()).To(Succeed())
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
}

// review asks whether a ConfigMap with this text may be created, as the API
// server does.
func review(port int, text string) (allowed bool, err error) {
	m, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"text": text},
	})
	if err != nil {
		return false, err
	}
	asked, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: m}},
	})
	if err != nil {
		return false, err
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is the test's own
		DisableKeepAlives: true,
	}}
	res, err := client.Post( //nolint:noctx // to this process
		fmt.Sprintf("https://127.0.0.1:%d/validate-configmap", port), "application/json", bytes.NewReader(asked))
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return false, err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, err
	}
	return answer.Response.Allowed, nil
}

// terminate sends SIGTERM to this process.
func terminate() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(syscall.SIGTERM)
}
