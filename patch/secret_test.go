package patch_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// The server stores stringData as data, and never shows it.
func TestStringDataIsComparedAsData(t *testing.T) {
	g, ctx, patches := NewWithT(t), t.Context(), 0
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	config := sim.Config("controller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				patches++
			}
			return next.RoundTrip(r)
		})
	})

	secrets := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets
	base := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}, Data: map[string][]byte{"old": []byte("1")}}
	edit := func(password string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.StringData = map[string]string{"password": password} }
	}
	cached, err := patch.Ensure(ctx, secrets, base, nil, edit("x"))
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		cached, err = patch.Ensure(ctx, secrets, cached, nil, edit("x"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(patches).To(BeZero())
	cached, err = patch.Ensure(ctx, secrets, cached, nil, edit("y"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patches).To(Equal(1))
	g.Expect(cached.Data).To(Equal(map[string][]byte{"old": []byte("1"), "password": []byte("y")}))

	untyped := dynamic.NewForConfigOrDie(config).Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	object, err := untyped.Namespace("d").Get(ctx, "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for want, password := range []string{1: "y", 2: "z"} {
		_, err = patch.Ensure(ctx, patch.Dynamic(untyped), object, nil, func(u *unstructured.Unstructured) {
			if password != "" {
				u.Object["stringData"] = map[string]any{"password": password}
			}
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patches).To(Equal(max(want, 1)))
	}
	got, err := secrets("d").Get(ctx, "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Data).To(HaveKeyWithValue("password", []byte("z")))
}
