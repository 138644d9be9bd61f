package cluster_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
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
