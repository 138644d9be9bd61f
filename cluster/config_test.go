package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// New refuses a config that no client could use, so that making a client later
// cannot fail.
func TestAConfigThatReachesNoServerIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		config *rest.Config
		says   string
	}{
		"none":               {nil, "is nil"},
		"no server":          {&rest.Config{}, "rest.Config.Host"},
		"a broken server":    {&rest.Config{Host: "http://[::1"}, `http://[::1`},
		"two authenticators": {&rest.Config{Host: "h", Username: "u", BearerToken: "t"}, "username/password or bearer token"},
		"a certificate that is not looked at": {&rest.Config{
			Host: "h", TLSClientConfig: rest.TLSClientConfig{Insecure: true, CAData: []byte("ca")},
		}, "insecure flag"},
		"a transport and its options": {&rest.Config{
			Host: "h", Transport: http.DefaultTransport, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		}, "custom transport"},
		"a missing file": {&rest.Config{
			Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAFile: "no such file"},
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := cluster.New(row.config, nil)
			g.Expect(err).To(MatchError(And(HavePrefix("configuring "), ContainSubstring(row.says))))
		})
	}
}

// A proxy that refuses to connect to the server says "Forbidden", as the server
// does about a missing permission.
func TestTheErrorOfAProxyNamesIt(t *testing.T) {
	g := NewWithT(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	g.Expect(err).NotTo(HaveOccurred())
	c, err := cluster.New(&rest.Config{Host: "https://10.96.0.1", Proxy: http.ProxyURL(address)}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.Client().CoreV1().Pods("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).To(MatchError(HaveSuffix("Forbidden: the request goes through the proxy " + proxy.URL +
		" (proxy-url in the kubeconfig, or rest.Config.Proxy)")))
	g.Expect(apierrors.IsForbidden(err)).To(BeFalse())
}

func TestConfigReturnsACopy(t *testing.T) {
	g := NewWithT(t)
	given := &rest.Config{Host: "https://h", UserAgent: "theirs"}
	c, err := cluster.New(given, &cluster.Options{UserAgent: "ours"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(given).To(Equal(&rest.Config{Host: "https://h", UserAgent: "theirs"}))
	c.Config().Host = "https://other"
	g.Expect(c.Config().Host).To(Equal("https://h"))
	g.Expect(c.Config().UserAgent).To(Equal("ours"))
}
