package certmanager_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/cert-manager/cert-manager/pkg/controller"
	// Each registers its controller, and the key manager also the conversions
	// of the API, which the Issuers need.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	// The issuers that the controller of Issuers knows.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// hosts is the transport of all processes of cert-manager. Its clients are
// made by a factory that takes the address of a server and nothing else, and
// clients of a server without TLS use http.DefaultTransport. So each boot has
// a server address of its own.
type hosts struct {
	mu  sync.Mutex
	all map[string]http.RoundTripper
}

// use makes a new address, whose requests go to the server of a config.
func (h *hosts) use(config *rest.Config) (string, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	host := fmt.Sprintf("boot-%d.test", len(h.all))
	h.all[host] = transport
	return "http://" + host, nil
}

// RoundTrip answers a request from the server of its address.
func (h *hosts) RoundTrip(request *http.Request) (*http.Response, error) {
	h.mu.Lock()
	transport := h.all[request.URL.Host]
	h.mu.Unlock()
	if transport == nil {
		return nil, fmt.Errorf("no boot has the address %q", request.URL.Host)
	}
	return transport.RoundTrip(request)
}

// addresses has the addresses of all boots of this test program.
var addresses = sync.OnceValue(func() *hosts {
	h := &hosts{all: map[string]http.RoundTripper{}}
	http.DefaultTransport = h
	return h
})

// running is a program of one controller, given by its name. It is wired as in
// cert-manager's main, with the rate limits that are its default.
func running(name string) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		host, err := addresses().use(env.Config())
		if err != nil {
			return err
		}
		factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
			APIServerHost: host, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
			IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "d"},
			IngressShimOptions: controller.IngressShimOptions{
				DefaultIssuerKind: "Issuer", DefaultIssuerGroup: "cert-manager.io",
				DefaultAutoCertificateAnnotations: []string{"kubernetes.io/tls-acme"},
			},
		})
		if err != nil {
			return err
		}
		loop, err := controller.Known()[name](factory)
		if err != nil {
			return err
		}
		shared, err := factory.Build()
		if err != nil {
			return err
		}
		if name == shim {
			env.Cache("ingresses.networking.k8s.io",
				shared.KubeSharedInformerFactory.Ingresses().Informer().GetStore().List)
		}
		shared.SharedInformerFactory.Start(ctx.Done())
		shared.KubeSharedInformerFactory.Start(ctx.Done())
		err = loop.Run(1, ctx)
		shared.SharedInformerFactory.Shutdown()
		shared.KubeSharedInformerFactory.Shutdown()
		if ctx.Err() != nil {
			return nil // it could not fill its caches before the end
		}
		return err
	}
}

// told explores a case with the linked version, as [published.Bug.Told] does.
func told(t *testing.T, b *published.Bug) {
	t.Helper()
	b.Controller = controller.NewContextFactory
	b.Case, b.Options = served(b.Case), options()
	b.Told(t)
}

// options leaves out what is found in all versions: the factory starts a
// broadcaster of Events for each controller, and nothing stops it. Nor do these
// controllers restore what others have edited.
func options() reconciletest.Options {
	klog.SetLogger(logr.Discard()) // events that are no longer written at the end
	return reconciletest.Options{
		Budget: published.Budget, SkipDrift: true, KnownFindings: []string{"goroutines that it started are still there"},
	}
}

// served adds the custom resources to a case, and returns it.
func served(c *reconciletest.Case) *reconciletest.Case {
	for kind, name := range map[string]string{
		"Certificate": "certificates", "CertificateRequest": "certificaterequests", "Issuer": "issuers",
		"ClusterIssuer": "clusterissuers",
	} {
		c.Resources = append(c.Resources, metav1.APIResource{
			Group: "cert-manager.io", Version: "v1", Kind: kind, Name: name, Namespaced: kind != "ClusterIssuer",
		})
	}
	return c
}

// object returns an object from its YAML.
func object(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err) // it is a constant
	}
	return o
}
