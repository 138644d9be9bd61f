package operator_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/operator"
)

// renewed is a TLS server whose certificate is replaced by one of another
// authority.
type renewed struct {
	*httptest.Server
	certificates [2]tls.Certificate
	current      atomic.Int32
}

func newRenewed(g *WithT, t *testing.T) *renewed {
	r := &renewed{}
	for n := range r.certificates {
		r.certificates[n] = selfSigned(g)
	}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{r.certificates[r.current.Load()]},
			}, nil
		},
	}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// selfSigned returns a certificate that is its own authority.
func selfSigned(g *WithT) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// authority returns the PEM of the authority of a certificate.
func (r *renewed) authority(n int) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.certificates[n].Certificate[0]}))
}

func (r *renewed) kubeconfig(authority string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, %s}}]
users: [{name: u, user: {token: a}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, r.URL, authority)
}

// The server gets a new certificate from another authority.
func TestAnotherAuthorityIsTrustedOnceTheKubeconfigHasIt(t *testing.T) {
	g := NewWithT(t)
	server, file := newRenewed(g, t), filepath.Join(t.TempDir(), "config")
	put := func(n int) {
		authority := base64.StdEncoding.EncodeToString([]byte(server.authority(n)))
		write(g, file, server.kubeconfig("certificate-authority-data: "+authority))
	}
	put(0)
	config, err := operator.Config(file)
	g.Expect(err).NotTo(HaveOccurred())
	clients := asks(g, config)
	for client, ask := range clients {
		g.Expect(ask(t.Context())).To(Succeed(), client)
	}
	server.current.Store(1)
	server.CloseClientConnections()
	for client, ask := range clients {
		g.Expect(ask(t.Context())).To(MatchError(ContainSubstring("x509")), client)
	}
	put(1)
	for client, ask := range clients {
		g.Eventually(func() error { return ask(t.Context()) }, patience).Should(Succeed(), client)
	}
}
