package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/reconcile"
)

// kubeconfigFile writes a kubeconfig with these members of its cluster.
func kubeconfigFile(t *testing.T, cluster string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	overwrite(t, file, cluster)
	return file
}

func overwrite(t *testing.T, file, cluster string) {
	t.Helper()
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}],
		clusters: [{name: c, cluster: {%s}}]}`, cluster)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A password with a character that must be encoded makes an address malformed,
// and the parser's error quotes the address.
func TestNoPasswordOfAnAddressIsShown(t *testing.T) {
	for name, text := range map[string]string{
		"of a proxy":               `server: "https://127.0.0.1:1", proxy-url: "http://bob:s3cr3t%zz@127.0.0.1:1"`,
		"of a proxy with a colon":  `server: "https://127.0.0.1:1", proxy-url: "http://bob:s3cr3t:1/@127.0.0.1:1"`,
		"of a proxy with a quote":  `server: "https://127.0.0.1:1", proxy-url: "http://bob:s3cr\"3t s3cr3t@127.0.0.1:1"`,
		"of a proxy, no scheme":    `server: "https://127.0.0.1:1", proxy-url: "bob:s3cr3t@127.0.0.1:1"`,
		"of a proxy that is away":  `server: "https://127.0.0.1:1", proxy-url: "http://bob:s3cr3t@127.0.0.1:1"`,
		"of a server":              `server: "https://bob:s3cr3t@127.0.0.1:1"`,
		"of a server, malformed":   `server: "https://bob:s3cr3t%zz@127.0.0.1:1"`,
		"of a server with a slash": `server: "https://bob:s3cr3t/@127.0.0.1:1"`,
	} {
		t.Run(name, func(t *testing.T) {
			g, file, stderr := NewWithT(t), kubeconfigFile(t, text), &strings.Builder{}
			setup := func(Env) ([]*reconcile.Controller, error) { return nil, nil }
			p := Program{Name: "p", Needs: []string{"list pods"}, Setup: setup}
			args := []string{"--kubeconfig=" + file, "--listen-addr=", "--startup-timeout=100ms", "--v=4"}
			g.Expect(p.Main(args, stderr)).To(Equal(1))
			g.Expect(stderr.String()).To(ContainSubstring("127.0.0.1:1"))
			g.Expect(stderr.String()).NotTo(ContainSubstring("s3cr"))
			if _, _, err := connect(file); err == nil {
				return
			}

			k, err := readKubeconfig(kubeconfigFile(t, `server: "https://127.0.0.1:1"`))
			g.Expect(err).NotTo(HaveOccurred())
			overwrite(t, k.rules.ExplicitPath, text)
			k.readAt = time.Time{}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:1", nil)
			g.Expect(err).NotTo(HaveOccurred())
			(&follower{kubeconfig: k}).follow(req, 0)
			g.Expect(k.problems("cluster/west")).To(HaveLen(1))
			g.Expect(k.problems("cluster/west")[0].Reason).To(And(
				ContainSubstring("***@127.0.0.1:1"), ContainSubstring("percent-encoded"), Not(ContainSubstring("s3cr"))))
		})
	}
}

func TestNoPasswordOfADifferentServerIsShown(t *testing.T) {
	g := NewWithT(t)
	k, err := readKubeconfig(kubeconfigFile(t, `server: "https://bob:s3cr3t@127.0.0.1:1"`))
	g.Expect(err).NotTo(HaveOccurred())
	overwrite(t, k.rules.ExplicitPath, `server: "https://bob:s3cr3t@127.0.0.1:2"`)
	k.readAt = time.Time{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:1", nil)
	g.Expect(err).NotTo(HaveOccurred())
	(&follower{kubeconfig: k}).follow(req, 0)
	g.Expect(k.problems("kubeconfig")[0].Reason).To(
		HaveSuffix(": https://***@127.0.0.1:2 instead of https://***@127.0.0.1:1"))

	c, err := cluster.New(&rest.Config{Host: "https://bob:s3cr3t@127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	r := &remote{name: "west", unfenced: c}
	r.note(t.Context(), http.ErrServerClosed)
	g.Expect(r.problems()[0].Reason).To(HavePrefix("the API server at https://***@127.0.0.1:1 does not answer"))
}

// client-go logs addresses from level 6 on, and the bodies of requests and
// answers from level 8 on.
func TestNoVerbosityShowsASecretOrAPassword(t *testing.T) {
	secret := corev1.Secret{
		TypeMeta:   metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s", UID: "u", ResourceVersion: "1"},
		Data:       map[string][]byte{"p": []byte("h")}, // a line of a hexdump shows it whole
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(secret)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { setVerbosity(0) })
	for level := range 12 {
		for _, format := range []string{"text", "json"} {
			g, stderr := NewWithT(t), &strings.Builder{}
			file := kubeconfigFile(t, `server: "`+strings.Replace(server.URL, "//", "//bob:s3cr3t@", 1)+`"`)
			p := Program{Name: "p", Setup: func(env Env) ([]*reconcile.Controller, error) {
				_, err := env.Cluster.Client().CoreV1().Secrets("d").Create(env.Context, &secret, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				return nil, errors.New("enough")
			}}
			args := []string{"--kubeconfig=" + file, "--listen-addr=", "--log-format=" + format, fmt.Sprintf("--v=%d", level)}
			g.Expect(p.Main(args, stderr)).To(Equal(1))
			g.Expect(stderr.String()).To(ContainSubstring("enough"))
			if level >= 6 {
				g.Expect(stderr.String()).To(ContainSubstring("/api/v1/namespaces/d/secrets"))
			}
			g.Expect(stderr.String()).NotTo(Or(ContainSubstring("s3cr3t"), ContainSubstring("Body"), ContainSubstring("aA==")), args)
		}
	}
}
