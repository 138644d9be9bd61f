package operator

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/reconcile"
)

// pairIn writes a certificate that expires at the given time, and its key.
func pairIn(g *WithT, dir string, serial int64, end time.Time) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
}

func certificateIn(dir string) (*certificate, error) {
	return readCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
}

// serialOf returns the serial number of the certificate that a client gets.
func serialOf(t *testing.T, c *certificate) int64 {
	t.Helper()
	g := NewWithT(t)
	near, far := net.Pipe()
	conn := tls.Client(near, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it expires
	go func() { _ = tls.Server(far, &tls.Config{GetCertificate: c.get}).HandshakeContext(t.Context()) }()
	g.Expect(conn.HandshakeContext(t.Context())).To(Succeed())
	g.Expect(errors.Join(near.Close(), far.Close())).To(Succeed())
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestARenewedCertificateIsServedAndABrokenOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, dir := NewWithT(t), t.TempDir()
		pairIn(g, dir, 1, time.Now().Add(time.Hour))
		c, err := certificateIn(dir)
		g.Expect(err).NotTo(HaveOccurred())
		pairIn(g, dir, 2, time.Now().Add(time.Hour))
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(1), "not each handshake reads files")
		<-time.After(readInterval)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(2))
		g.Expect(c.problems()).To(BeEmpty())

		// The key belongs to another certificate, as it does while both files
		// are being replaced.
		other := t.TempDir()
		pairIn(g, other, 3, time.Now().Add(time.Hour))
		g.Expect(os.Rename(filepath.Join(other, "tls.key"), filepath.Join(dir, "tls.key"))).To(Succeed())
		<-time.After(readInterval)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(2))
		g.Expect(c.problems()).To(ConsistOf(HaveField("Reason", ContainSubstring("private key does not match"))))
		g.Expect(os.Rename(filepath.Join(other, "tls.crt"), filepath.Join(dir, "tls.crt"))).To(Succeed())
		<-time.After(readInterval)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(3))
		g.Expect(c.problems()).To(BeEmpty())

		<-time.After(2 * time.Hour)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(3))
		g.Expect(c.problems()).To(ConsistOf(HaveField("Reason", ContainSubstring("expired at"))))
	})
}

// The authority's clock, or the renewal, may be ahead of this machine.
func TestACertificateThatIsNotValidYetReplacesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, dir := NewWithT(t), t.TempDir()
		pairIn(g, dir, 1, time.Now().Add(25*time.Hour)) // which begins in an hour
		c, err := certificateIn(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(1), "there is no other")
		g.Expect(c.problems()).To(ConsistOf(HaveField("Reason", ContainSubstring("is not valid before"))))
		<-time.After(time.Hour)
		g.Expect(c.problems()).To(BeEmpty())

		pairIn(g, dir, 2, time.Now().Add(25*time.Hour))
		<-time.After(readInterval)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(1))
		g.Expect(c.problems()).To(ConsistOf(HaveField("Reason", HavePrefix("the certificate in "+dir))), "not of this page")
		<-time.After(time.Hour)
		g.Expect(serialOf(t, c)).To(BeEquivalentTo(2))
		g.Expect(c.problems()).To(BeEmpty())
	})
}

func TestEverythingIsServedOverTLSWithTheFilesOfACertificate(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	pairIn(g, dir, 1, time.Now().Add(-time.Minute))
	reached, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	s := &Server{
		Address: "127.0.0.1:0", Cluster: reached,
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}
	l, _, err := s.listen(t.Context()) // only to learn a free port
	g.Expect(err).NotTo(HaveOccurred())
	s.Address = l.Addr().String()
	g.Expect(l.Close()).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.RunSetup(ctx, func(ctx context.Context) ([]*reconcile.Controller, error) {
			<-ctx.Done()
			return nil, nil
		})
	}()
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it has expired
	defer insecure.CloseIdleConnections()
	client := &http.Client{Transport: insecure}
	get := func(scheme string) (int, string) {
		res, err := client.Get(scheme + "://" + s.Address + "/readyz") //nolint:noctx // of this process
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body) // what is missing is seen
		return res.StatusCode, string(body)
	}
	g.Eventually(func() string { _, body := get("https"); return body }, time.Minute).Should(And(
		ContainSubstring("starting"), ContainSubstring("certificate of the status page expired")))
	status, _ := get("http")
	g.Expect(status).To(Equal(http.StatusBadRequest))
	stop()
	g.Expect(<-ended).To(Succeed())
}

func TestAnInvalidCertificateEndsTheProgram(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	_, err := certificateIn(dir)
	g.Expect(err).To(MatchError(And(ContainSubstring("tls.crt"), ContainSubstring("no such file"))))
	_, err = readCertificate("a", "")
	g.Expect(err).To(MatchError(ContainSubstring("must both be set, or neither")))
	for _, args := range [][]string{
		{"--tls-cert-file=a"},
		{"--tls-private-key-file=a"},
		{"--tls-cert-file=a", "--tls-private-key-file=a", "--listen-addr="},
	} {
		var said bytes.Buffer
		p := Program{Name: "test", Setup: func(Env) ([]*reconcile.Controller, error) { return nil, nil }}
		g.Expect(p.Main(args, &said)).To(Equal(2), said.String())
		g.Expect(said.String()).To(ContainSubstring("--tls-cert-file, --tls-private-key-file: must both be set"))
	}
}
