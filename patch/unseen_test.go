package patch_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// The cache drops the data of a ConfigMap (informer.Options.Transform), and
// with it all values that the Applier applies. What the cache does not show is
// applied once after each change of the object, not in each call.
func TestAnApplierAppliesWhatTheCacheDoesNotShowOnceAfterEachChange(t *testing.T) {
	drops := map[string]func(*corev1.ConfigMap){
		"all data":              func(m *corev1.ConfigMap) { m.Data = nil },
		"and the managed field": func(m *corev1.ConfigMap) { m.Data, m.ManagedFields = nil, nil },
	}
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { appliesWhatIsDropped(t, drop) }) })
	}
}

func appliesWhatIsDropped(t *testing.T, drop func(*corev1.ConfigMap)) {
	t.Helper()
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{ManagedFields: true})
	g.Expect(err).NotTo(HaveOccurred())
	requests := 0
	config := sim.Config("doorman")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			requests++
			return next.RoundTrip(r)
		})
	})
	users := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("d")
	a := patch.NewApplier(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps)
	wanted := corev1ac.ConfigMap("a", "d").WithData(map[string]string{"k": "v"})
	live := func() *corev1.ConfigMap {
		m, err := users.Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return m
	}
	asks := func() int {
		before := requests
		<-time.After(time.Hour) // no cache is that late
		cached := live()
		drop(cached)
		_, err := a.Apply(t.Context(), cached, asDoorman, wanted)
		g.Expect(err).NotTo(HaveOccurred())
		return requests - before
	}
	_, err = a.Apply(t.Context(), nil, asDoorman, wanted)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asks()).To(BeNumerically("<=", 1))
	g.Expect(asks()).To(BeZero())
	g.Expect(asks()).To(BeZero())
	for _, theirs := range []string{`{"data":{"k":"theirs"}}`, `{"metadata":{"labels":{"a":"b"}}}`, `{"data":{"k":null}}`} {
		_, err := users.Patch(t.Context(), "a", types.MergePatchType, []byte(theirs), metav1.PatchOptions{FieldManager: "editor"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(asks()).To(Equal(1), theirs)
		g.Expect(live().Data).To(Equal(map[string]string{"k": "v"}), theirs)
		g.Expect(asks()).To(BeNumerically("<=", 1), "the answer's state is new")
		g.Expect(asks()).To(BeZero(), theirs)
	}
}
