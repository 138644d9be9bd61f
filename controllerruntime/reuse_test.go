package controllerruntime_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/controllerruntime"
)

// The simulated server sends JSON, in which specs are always decoded. The
// transport of the cache is what finds that out.
func TestTheTransportOfTheCacheReusesSpecs(t *testing.T) {
	onlySecrets := controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}}
	run(t, settings{Options: onlySecrets}, func(f *fixture) {
		_, err := f.admin.CoreV1().Namespaces().Create(f.ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(f.client.Get(f.ctx, client.ObjectKey{Name: "shop"}, &corev1.Namespace{})).To(Succeed())
		status := controllerruntime.Status(f.cache)[0]
		f.Expect(status.Kind).To(Equal("Namespace"))
		f.Expect(status.FullDecode).To(Equal(`the server sends "application/json"`))
	})
}

func TestTheHTTPClientOfTheOptionsStaysAsItIs(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, settings{})
	own := &http.Client{Transport: http.DefaultTransport}
	_, err := controllerruntime.NewCache(nil)(f.config, cache.Options{HTTPClient: own, Mapper: f.client.RESTMapper()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(own.Transport).To(BeIdenticalTo(http.DefaultTransport))
}

// A program may make a cache without a manager, from a config as client-go
// loads it. A manager, and controller-runtime's own cache, set the user agent.
func TestACacheWithoutAManagerHasTheUserAgentOfClientGo(t *testing.T) {
	for given, want := range map[string]string{"": rest.DefaultKubernetesUserAgent(), "mine": "mine"} {
		g := NewWithT(t)
		var mu sync.Mutex
		agents := map[string]bool{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			agents[r.UserAgent()] = true
			w.WriteHeader(http.StatusForbidden)
		}))
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
		config := &rest.Config{Host: server.URL, UserAgent: given}
		made, err := controllerruntime.NewCache(nil)(config, cache.Options{Mapper: mapper})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- made.Start(ctx) }()
		_, err = made.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
		g.Expect(err).NotTo(HaveOccurred())
		sent := func() map[string]bool {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(agents)
		}
		g.Eventually(sent).WithTimeout(time.Minute).ShouldNot(BeEmpty())
		cancel()
		g.Expect(<-done).To(Succeed())
		server.Close()
		g.Expect(sent()).To(Equal(map[string]bool{want: true}))
		g.Expect(config.UserAgent).To(Equal(given), "the caller's config stays as it is")
	}
}
