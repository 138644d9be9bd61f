package certmanager_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// The controllers, by the names that they register.
const (
	shim           = "ingress-shim"
	readiness      = "certificates-readiness"
	issuers        = "issuers"
	clusterIssuers = "clusterissuers"
)

// cert-manager/cert-manager#9297, fixed by #9303: a label that Certificates do
// not get is deleted from the Ingress in the cache.
func TestLabelOfAnIngressInTheCache(t *testing.T) {
	told(t, &published.Bug{
		Fixed: "v1.21.2",
		Case: &reconciletest.Case{
			Run: running(shim),
			Objects: []runtime.Object{object(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: d
  name: web
  labels: {applyset.kubernetes.io/part-of: applyset-one, app: web}
  annotations: {cert-manager.io/issuer: one}
spec:
  tls: [{hosts: [web.example.com], secretName: web-tls}]
  defaultBackend: {service: {name: web, port: {number: 80}}}`)},
		},
		Oracle: "mutation", Says: `ingresses`,
	})
}

// cert-manager/cert-manager#9036, fixed by #9083: the Secret of a DNS-01 solver
// that comes later wakes nothing.
func TestSecretOfAnIssuerThatComesLater(t *testing.T) { comesLater(t, issuers, "Issuer") }

func TestSecretOfAClusterIssuerThatComesLater(t *testing.T) {
	comesLater(t, clusterIssuers, "ClusterIssuer")
}

// comesLater explores an issuer with two solvers. The Secret of one is created
// later, and that of the other is missing to the end, so that no ACME server is
// asked.
func comesLater(t *testing.T, controller, kind string) {
	t.Helper()
	issuer := object(`
apiVersion: cert-manager.io/v1
metadata: {name: one}
spec:
  acme:
    server: https://acme.example.com/directory
    privateKeySecretRef: {name: account}
    solvers:
    - selector: {dnsZones: [example.com]}
      dns01: {cloudflare: {apiTokenSecretRef: {name: example-com, key: token}}}
    - selector: {dnsZones: [example.net]}
      dns01: {cloudflare: {apiTokenSecretRef: {name: example-net, key: token}}}`)
	issuer.SetKind(kind)
	if kind == "Issuer" {
		issuer.SetNamespace("d")
	}
	told(t, &published.Bug{
		Fixed: "v1.21.1",
		Case: &reconciletest.Case{
			Run:     running(controller),
			Objects: []runtime.Object{secret("account", map[string][]byte{"tls.key": privateKey()}), issuer},
			Workload: []reconciletest.Step{
				reconciletest.Create(secret("example-com", map[string][]byte{"token": []byte("one")})),
			},
			Ignore: []string{"secrets data"}, // a key that was deleted is made again
		},
		Oracle: "tail", Says: `update \w*issuers.cert-manager.io`,
	})
}

// secret returns a Secret without a label.
func secret(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Data: data}
}

// privateKey returns the key of an account, in PEM. It is made once.
var privateKey = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // it has enough bits
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})
