package controllerruntime_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
