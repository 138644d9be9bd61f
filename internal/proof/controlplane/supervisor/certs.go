package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The files of the data directory's pki folder.
const (
	caCert         = "ca.crt"
	serverCert     = "server.crt"
	serverKey      = "server.key"
	accountKey     = "service-account.key"
	adminName      = "admin"
	managerName    = "controller-manager"
	schedulerName  = "scheduler"
	certLifetime   = 10 * 365 * 24 * time.Hour
	clockTolerance = time.Hour
)

// An authority issues the certificates of one control plane. Its key is never
// written to disk.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
	next int64
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of the certificate authority: %w", err)
	}
	a := &authority{key: key, now: now, next: 2}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "controlplane"},
		NotBefore:             now.Add(-clockTolerance),
		NotAfter:              now.Add(certLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of the authority: %w", err)
	}
	a.cert, err = x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the authority: %w", err)
	}
	return a, nil
}

// server returns the identity with which every component serves TLS.
func server() x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(host), net.ParseIP("10.0.0.1")},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
	}
}

func client(user string, groups ...string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// issue returns a certificate for the identity and its key, both in PEM.
func (a *authority) issue(identity x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating the key of %q: %w", identity.Subject.CommonName, err)
	}
	identity.SerialNumber = big.NewInt(a.next)
	identity.NotBefore = a.now.Add(-clockTolerance)
	identity.NotAfter = a.now.Add(certLifetime)
	identity.KeyUsage = x509.KeyUsageDigitalSignature
	a.next++
	der, err := x509.CreateCertificate(rand.Reader, &identity, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the certificate of %q: %w", identity.Subject.CommonName, err)
	}
	keyPEM, err = encodeKey(key)
	return encodeCert(der), keyPEM, err
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writePKI writes a folder with the authority's certificate, the components'
// identities and the key that signs service-account tokens. If it fails, the
// folder does not exist.
func writePKI(dir string, now time.Time) error {
	a, err := newAuthority(now)
	if err != nil {
		return err
	}
	files := map[string][]byte{caCert: encodeCert(a.cert.Raw)}
	for name, identity := range map[string]x509.Certificate{
		"server":      server(),
		adminName:     client("kubernetes-admin", "system:masters"),
		managerName:   client("system:kube-controller-manager", "system:masters"),
		schedulerName: client("system:kube-scheduler"),
	} {
		if files[name+".crt"], files[name+".key"], err = a.issue(identity); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the key of the service accounts: %w", err)
	}
	if files[accountKey], err = encodeKey(key); err != nil {
		return err
	}
	return writeFolder(dir, files)
}

func writeFolder(dir string, files map[string][]byte) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("removing an unfinished folder: %w", err)
	}
	if err := os.MkdirAll(partial, 0o700); err != nil {
		return fmt.Errorf("creating the folder of the certificates: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(partial, name), content, 0o600); err != nil {
			return fmt.Errorf("writing a certificate: %w", err)
		}
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("moving the certificates to their place: %w", err)
	}
	return nil
}
