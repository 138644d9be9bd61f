package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/names"
)

// connected parses flags and returns the resulting config and namespace.
func connected(t *testing.T, args ...string) (*rest.Config, string, error) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	s := &settings{connection: newConnection()}
	for _, g := range s.groups() {
		if g.title == "Cluster" || g.title == "Which objects" {
			g.flags.ParseErrorsAllowlist.UnknownFlags = true
			NewWithT(t).Expect(g.flags.Parse(args)).To(Succeed())
		}
	}
	return s.connection.config()
}

func TestKubectlsConnectionFlags(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "config")
	g.Expect(os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://one:1"}}, {name: d, cluster: {server: "https://two:2"}}]
users: [{name: u, user: {token: first}}, {name: v, user: {token: second}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: from-context}}]
current-context: x
`), 0o600)).To(Succeed())
	config, namespace, err := connected(t, "--kubeconfig="+file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(namespace).To(Equal("from-context"))
	g.Expect(config).To(And(HaveField("Host", "https://one:1"), HaveField("BearerToken", "first"),
		HaveField("QPS", BeEquivalentTo(-1)), HaveField("UserAgent", "observe"), HaveField("Timeout", BeZero())))

	config, namespace, err = connected(t, "--kubeconfig="+file, "-n", "here", "--cluster=d", "--user=v",
		"--as=me", "--as-group=a", "--as-group=b", "--as-uid=7", "--as-user-extra=k=v",
		"--insecure-skip-tls-verify", "--tls-server-name=three", "--disable-compression")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(namespace).To(Equal("here"))
	g.Expect(config).To(And(HaveField("Host", "https://two:2"), HaveField("BearerToken", "second"),
		HaveField("TLSClientConfig.Insecure", true), HaveField("TLSClientConfig.ServerName", "three"),
		HaveField("DisableCompression", true),
		HaveField("Impersonate", rest.ImpersonationConfig{
			UserName: "me", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}},
		})))

	config, _, err = connected(t, "--server=https://four:4", "--token=third")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config).To(And(HaveField("Host", "https://four:4"), HaveField("BearerToken", "third")))
	config, _, err = connected(t, "-s", "https://four:4", "--username=me", "--password=secret", "--proxy-url=http://five:5")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config).To(And(HaveField("Username", "me"), HaveField("Password", "secret"), HaveField("Proxy", Not(BeNil()))))
}

// A token that is written in the file may be replaced there, as one in a file
// of its own.
func TestAChangedKubeconfigIsReadAgain(t *testing.T) {
	for _, flags := range [][]string{nil, {"--request-timeout=1m"}, {"--disable-compression"}} {
		file := filepath.Join(t.TempDir(), "config")
		t.Setenv("KUBECONFIG", "")
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			write := func(token string) {
				g.Expect(os.WriteFile(file, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://one:1"}}]
users: [{name: u, user: {token: `+token+`}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`), 0o600)).To(Succeed())
			}
			write("first")
			config, _, err := connected(t, append(flags, "--kubeconfig="+file)...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config).To(And(HaveField("BearerToken", "first"), HaveField("UserAgent", "observe")))
			var sent string
			server := config.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
				sent = r.Header.Get("Authorization")
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}))
			write("second")
			<-time.After(time.Minute)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://one:1/api", http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			answer, err := server.RoundTrip(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Body.Close()).To(Succeed())
			g.Expect(sent).To(Equal("Bearer second"))
		})
	}
}

func TestRequestsHaveADeadlineAndWatchesNone(t *testing.T) {
	g := NewWithT(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") || r.URL.Query().Get("watch") != "" {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"major":"1"}`)
	}))
	defer server.Close()
	config, _, err := connected(t, "--server="+server.URL, "--request-timeout=300ms")
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.RESTClient().Get().AbsPath("/slow").DoRaw(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("the server did not answer within --request-timeout=300ms")))
	g.Expect(client.RESTClient().Get().AbsPath("/quick").DoRaw(t.Context())).To(ContainSubstring("major"))
	watch := make(chan error, 1)
	go func() {
		_, err := client.RESTClient().Get().AbsPath("/watched").Param("watch", "true").DoRaw(t.Context())
		watch <- err
	}()
	<-time.After(600 * time.Millisecond)
	close(release)
	g.Eventually(watch, time.Minute).Should(Receive(Succeed()))
}

func TestHealthzAnswersAsInOc(t *testing.T) {
	g := NewWithT(t)
	synced := false
	handler := withHealthz(http.NotFoundHandler(), func() bool { return synced })
	get := func(path string) int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code
	}
	g.Expect(get("/healthz")).To(Equal(500))
	synced = true
	g.Expect(get("/healthz")).To(Equal(200))
	g.Expect(get("/healthz/ready")).To(Equal(200))
	g.Expect(get("/livez")).To(Equal(404), "is the other handler's")
}

func TestARefusedSweepNamesFlags(t *testing.T) {
	g := NewWithT(t)
	e := &names.RefusedError{Orphans: 12, Known: 14, MaxCount: 10, MaxShare: 0.5}
	(&settings{}).sweep().Refused(e)
	g.Expect(e).To(MatchError(And(HavePrefix("safety limit: 12 of 14 known names are orphans"),
		HaveSuffix("more than 10 and more than 50 %: nothing is cleaned; if that is right, start once with --max-orphans=12"))))
	g.Expect(e.Error()).NotTo(Or(ContainSubstring("Max"), ContainSubstring("Options"), ContainSubstring("Confirm")))
}

func TestFlagsThatAreNotAboutAnotherClusterHoldInsideOne(t *testing.T) {
	g := NewWithT(t)
	s := &settings{connection: newConnection()}
	flags := s.connection.flagSet()
	g.Expect(flags.Parse([]string{
		"--as=me", "--as-group=a", "--as-group=b", "--as-uid=7", "--as-user-extra=k=v", "--as-user-extra=k=w=x", "--token=mine",
		"--disable-compression", "--request-timeout=3s",
	})).To(Succeed())
	g.Expect(s.connection.mayBeInCluster()).To(BeTrue())
	config := s.connection.inCluster(&rest.Config{BearerToken: "pod's", BearerTokenFile: "/pod"})
	g.Expect(config).To(And(
		HaveField("BearerToken", "mine"), HaveField("BearerTokenFile", ""), HaveField("DisableCompression", true),
		HaveField("Timeout", BeZero()), HaveField("WrapTransport", Not(BeNil())),
		HaveField("Impersonate", rest.ImpersonationConfig{
			UserName: "me", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v", "w=x"}},
		})))
	g.Expect(flags.Parse([]string{"--cluster=other"})).To(Succeed())
	g.Expect(s.connection.mayBeInCluster()).To(BeFalse())

	s = &settings{connection: newConnection()}
	s.connection.flagSet()
	config = s.connection.inCluster(&rest.Config{BearerToken: "pod's", BearerTokenFile: "/pod"})
	g.Expect(config).To(And(HaveField("BearerToken", "pod's"), HaveField("BearerTokenFile", "/pod"),
		HaveField("WrapTransport", BeNil())))
}

func TestTheDeadlineOfARequestEndsWithItsBody(t *testing.T) {
	g := NewWithT(t)
	var ctx context.Context
	next := roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx = r.Context()
		return &http.Response{Body: io.NopCloser(strings.NewReader("answer"))}, nil
	})
	answer, err := limited(time.Hour)(next).RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(answer.Body)).To(BeEquivalentTo("answer"))
	g.Expect(ctx.Err()).NotTo(HaveOccurred())
	g.Expect(answer.Body.Close()).To(Succeed())
	g.Expect(ctx.Err()).To(MatchError(context.Canceled), "no timer is left behind")
}

// broken cannot be closed.
type broken struct{ io.Reader }

func (broken) Close() error { return io.ErrUnexpectedEOF }

func TestADeadlineHidesNoError(t *testing.T) {
	g := NewWithT(t)
	answers := map[string]error{"/body": nil, "/refused": syscall.ECONNREFUSED}
	client := limited(time.Hour)(roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{Body: broken{strings.NewReader("")}}, answers[r.URL.Path]
	}))
	answer, err := client.RoundTrip(httptest.NewRequest(http.MethodGet, "/body", nil))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Body.Close()).To(MatchError(io.ErrUnexpectedEOF))
	_, err = client.RoundTrip(httptest.NewRequest(http.MethodGet, "/refused", nil))
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
}

// closed takes nothing.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestMetricsThatCannotBeWrittenAreAnError(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"}))
	g.Expect(dump(registry, closed{})).To(MatchError("writing metrics: file already closed"))
}
