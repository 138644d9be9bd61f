//go:build e2e

package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile"
)

// The real server reviews the tokens, and the scraper knows the certificate.
func TestE2EMetricsAreServedOverTLSToThoseWhoMayGetThem(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	server, err := e2e.Start(ctx, &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	account := func(name string, rules ...rbacv1.PolicyRule) *rest.Config {
		config, err := server.ServiceAccount(ctx, e2e.ServiceAccount{
			Namespace: metav1.NamespaceDefault, Name: name, ClusterRules: rules,
		})
		g.Expect(err).NotTo(HaveOccurred())
		return config
	}
	creates := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}}
	}
	program := account("program", creates("authentication.k8s.io", "tokenreviews"),
		creates("authorization.k8s.io", "subjectaccessreviews"))
	scraper := account("scraper", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	stranger := account("stranger")

	pairIn(g, dir, 1, time.Now().Add(time.Hour))
	reached, err := cluster.New(program, nil)
	g.Expect(err).NotTo(HaveOccurred())
	s := &Server{
		Address: "127.0.0.1:0", Cluster: reached, MetricsAuth: true,
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}
	l, _, err := s.listen(ctx) // only to learn a free port
	g.Expect(err).NotTo(HaveOccurred())
	s.Address = l.Addr().String()
	g.Expect(l.Close()).To(Succeed())
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- s.RunSetup(running, func(ctx context.Context) ([]*reconcile.Controller, error) {
			<-ctx.Done()
			return nil, nil
		})
	}()
	authority, err := os.ReadFile(s.CertFile)
	g.Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(authority)).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	scrape := func(scheme, token string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.Address+"/metrics", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body) // What is missing is seen.
		return response.StatusCode, string(body)
	}
	g.Eventually(func() string { _, body := scrape("https", scraper.BearerToken); return body }, 2*time.Minute).
		Should(ContainSubstring("go_goroutines"))
	for token, want := range map[string]int{
		stranger.BearerToken: http.StatusForbidden, "": http.StatusUnauthorized, "odd": http.StatusUnauthorized,
	} {
		status, body := scrape("https", token)
		g.Expect(status).To(Equal(want), body)
		g.Expect(body).NotTo(ContainSubstring("go_goroutines"))
	}
	status, _ := scrape("http", scraper.BearerToken)
	g.Expect(status).To(Equal(http.StatusBadRequest))
	stop()
	g.Expect(<-ended).To(Succeed())
}
