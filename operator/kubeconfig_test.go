package operator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/operator"
)

// gatekeeper is a TLS server that accepts the users that it knows at present,
// and records them.
type gatekeeper struct {
	*httptest.Server

	mu    sync.Mutex // guards the fields below
	known string     // what who returns for a client that is let in
	seen  []string
}

func newGatekeeper(t *testing.T, known string) *gatekeeper {
	k := &gatekeeper{known: known}
	k.Server = httptest.NewUnstartedServer(k)
	k.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// who is how a client authenticates: by a token, a password, impersonation or a
// certificate.
func who(r *http.Request) string {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if user, password, ok := r.BasicAuth(); ok {
		name = user + ":" + password
	}
	if as := r.Header.Get("Impersonate-User"); as != "" {
		name += " as " + as
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		name += "certificate of " + r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return name
}

func (k *gatekeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, who(r))
	w.Header().Set("Content-Type", "application/json")
	if who(r) != k.known {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
		return
	}
	_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`)
}

// RoundTrip lets k be asked without a network: in virtual time.
func (k *gatekeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	if asked := r.URL.Scheme + "://" + r.URL.Host; asked != k.URL {
		return nil, fmt.Errorf("it is %s, and was asked as %s", k.URL, asked)
	}
	answer := httptest.NewRecorder()
	k.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// asks is a client of a config that asks k without a network.
func (k *gatekeeper) asks(g *WithT, config *rest.Config) func() error {
	through, err := rest.HTTPWrappersForConfig(config, k)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: through})
	g.Expect(err).NotTo(HaveOccurred())
	return func() error {
		return client.CoreV1().RESTClient().Get().AbsPath("/version").Do(context.Background()).Error()
	}
}

// admits lets in those who are known by another name from now on.
func (k *gatekeeper) admits(known string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = known
}

// kubeconfig returns a kubeconfig in which user is the YAML of the user.
func (k *gatekeeper) kubeconfig(user string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw})
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, k.URL, base64.StdEncoding.EncodeToString(ca), user)
}

// certificate returns the fields of a user with a certificate of a name.
func certificate(g *WithT, name string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	text := func(kind string, data []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return "client-certificate-data: " + text("CERTIFICATE", raw) + ", client-key-data: " + text("PRIVATE KEY", private)
}

func write(g *WithT, file, text string) {
	next := file + ".next"
	g.Expect(os.WriteFile(next, []byte(text), 0o600)).To(Succeed())
	g.Expect(os.Rename(next, file)).To(Succeed())
}

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// accepted returns err if the server could not be asked, or has not accepted
// the credentials. That its answer is about something else does not matter.
func accepted(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok || apierrors.IsUnauthorized(err) {
		return err
	}
	return nil
}

// asks are clients of each make, of one config.
func asks(g *WithT, config *rest.Config) map[string]func(context.Context) error {
	c, err := cluster.New(config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	ofVersion := func(r rest.Interface) func(context.Context) error {
		return func(ctx context.Context) error { return r.Get().AbsPath("/version").Do(ctx).Error() }
	}
	untyped, err := dynamic.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	bare, err := metadata.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	kind, err := cluster.NewKind[*corev1.Pod, *corev1.PodList](c, podsResource, corev1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	leases, err := leader.Client(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	return map[string]func(context.Context) error{
		"built-in kinds":        ofVersion(c.Client().CoreV1().RESTClient()),
		"a config of its own":   ofVersion(kubernetes.NewForConfigOrDie(c.Config()).AppsV1().RESTClient()),
		"the config as it came": ofVersion(kubernetes.NewForConfigOrDie(config).AppsV1().RESTClient()),
		"dynamic": func(ctx context.Context) error {
			_, err := untyped.Resource(podsResource).List(ctx, metav1.ListOptions{})
			return err
		},
		"the cluster's dynamic client": func(ctx context.Context) error {
			_, err := c.Dynamic().Resource(podsResource).List(ctx, metav1.ListOptions{})
			return err
		},
		"metadata": func(ctx context.Context) error {
			_, err := bare.Resource(podsResource).List(ctx, metav1.ListOptions{})
			return accepted(err)
		},
		"a kind": func(ctx context.Context) error {
			_, err := kind.In("").List(ctx, metav1.ListOptions{})
			return accepted(err)
		},
		"leases": func(ctx context.Context) error {
			_, err := leases.Leases("d").Get(ctx, "l", metav1.GetOptions{})
			return accepted(err)
		},
	}
}

func TestAChangedKubeconfigIsReadAgain(t *testing.T) {
	g := NewWithT(t)
	ours, theirs := certificate(g, "ours"), certificate(g, "theirs")
	var changed []func()
	for name, c := range map[string]struct {
		before, after string // of the user in the kubeconfig
		was, is       string // as the server sees it
	}{
		"another token":                       {"token: a", "token: b", "a", "b"},
		"another certificate":                 {ours, theirs, "certificate of ours", "certificate of theirs"},
		"a token instead of a certificate":    {ours, "token: b", "certificate of ours", "b"},
		"a certificate instead of a token":    {"token: a", theirs, "a", "certificate of theirs"},
		"another password":                    {"username: u, password: a", "username: u, password: b", "u:a", "u:b"},
		"a token, as another user":            {"token: a, as: one", "token: b, as: two", "a as one", "b as two"},
		"a token, and no longer another user": {"token: a, as: one", "token: b", "a as one", "b"},
	} {
		server := newGatekeeper(t, c.was)
		file := filepath.Join(t.TempDir(), "config")
		write(g, file, server.kubeconfig(c.before))
		config, err := operator.Config(file)
		g.Expect(err).NotTo(HaveOccurred(), name)
		clients := asks(g, config)
		for client, ask := range clients {
			g.Expect(ask(t.Context())).To(Succeed(), name+", "+client)
		}
		server.admits(c.is)
		for client, ask := range clients {
			g.Expect(ask(t.Context())).To(Satisfy(apierrors.IsUnauthorized), name+", "+client+": the file is as it was")
		}
		write(g, file, server.kubeconfig(c.after))
		changed = append(changed, func() { // when all have changed, since each waits for a second
			for client, ask := range clients {
				g.Eventually(func() error { return ask(t.Context()) }, patience).Should(Succeed(), name+", "+client)
			}
		})
	}
	for _, isRead := range changed {
		isRead()
	}
}

// The accepted users need not change, because credentials are replaced before
// the old ones expire.
func TestAKubeconfigIsReadAgainBeforeTheServerRefuses(t *testing.T) {
	server := newGatekeeper(t, "a")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		file := filepath.Join(t.TempDir(), "config")
		write(g, file, server.kubeconfig("token: a"))
		config, err := operator.Config(file)
		g.Expect(err).NotTo(HaveOccurred())
		ask := server.asks(g, config)
		write(g, file, server.kubeconfig("token: b"))
		for range 10 {
			g.Expect(ask()).To(Succeed())
			<-time.After(time.Second)
		}
		g.Expect(server.seen).To(HaveEach("a"))
		g.Expect(ask()).To(Satisfy(apierrors.IsUnauthorized))
		g.Expect(server.seen).To(HaveExactElements(append(slices.Repeat([]string{"a"}, 10), "b")), "within ten seconds")
	})
}

// A file that is not a kubeconfig, or that names a different server, changes
// nothing.
func TestCredentialsAreKeptWhileTheFileHasNoneForTheServer(t *testing.T) {
	g := NewWithT(t)
	server, other := newGatekeeper(t, "a"), newGatekeeper(t, "b")
	for name, text := range map[string]string{
		"empty":         "",
		"broken":        "{",
		"half of it":    server.kubeconfig("token: b")[:200],
		"other server":  other.kubeconfig("token: b"),
		"no user":       strings.Replace(server.kubeconfig("token: b"), "user: u}", "user: nobody}", 1),
		"another shape": "kind: Secret",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				server.admits("a")
				file := filepath.Join(t.TempDir(), "config")
				write(g, file, server.kubeconfig("token: a"))
				config, err := operator.Config(file)
				g.Expect(err).NotTo(HaveOccurred())
				ask := server.asks(g, config)
				g.Expect(ask()).To(Succeed())
				write(g, file, text)
				server.admits("c") // so that the file is read after a second
				for range 20 {
					g.Expect(ask()).NotTo(Succeed())
					<-time.After(100 * time.Millisecond)
				}
				server.admits("a")
				g.Expect(ask()).To(Succeed())
				server.admits("c")
				write(g, file, server.kubeconfig("token: c"))
				<-time.After(time.Second)
				g.Expect(ask()).To(Satisfy(apierrors.IsUnauthorized))
				g.Expect(ask()).To(Succeed(), "it heals")
			})
		})
	}
	g.Expect(other.seen).To(BeEmpty())
}

// The program keeps the context that was current at the start, even if kubectl
// config use-context changes the file.
func TestTheContextOfTheStartIsKept(t *testing.T) {
	server := newGatekeeper(t, "a")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		file := filepath.Join(t.TempDir(), "config")
		write(g, file, server.kubeconfig("token: a"))
		config, err := operator.Config(file)
		g.Expect(err).NotTo(HaveOccurred())
		ask := server.asks(g, config)
		two := strings.NewReplacer("users: [", "users: [{name: v, user: {token: wrong}}, ",
			"contexts: [", "contexts: [{name: second, context: {cluster: c, user: v}}, ").Replace(server.kubeconfig("token: b"))
		write(g, file, strings.Replace(two, "current-context: x", "current-context: second", 1))
		server.admits("b")
		<-time.After(time.Second)
		g.Expect(ask()).To(Satisfy(apierrors.IsUnauthorized))
		g.Expect(ask()).To(Succeed())
		g.Expect(server.seen).NotTo(ContainElement("wrong"))
		write(g, file, strings.NewReplacer("name: x", "name: z", "current-context: x", "current-context: z").
			Replace(server.kubeconfig("token: c")))
		server.admits("c")
		<-time.After(time.Second)
		g.Expect(ask()).To(Satisfy(apierrors.IsUnauthorized))
		g.Expect(ask()).To(Succeed(), "a new file may name it otherwise")
	})
}

// An empty file does not stand for the cluster that the program runs in.
func TestAnEmptyKubeconfigIsNotTheInClusterConfig(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	file := filepath.Join(t.TempDir(), "config")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	_, err := operator.Config(file)
	g.Expect(err).To(MatchError(ContainSubstring(file)))
}
