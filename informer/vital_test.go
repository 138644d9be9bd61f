package informer_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// An object that is being deleted must not seem to be alive, and a status must
// be about the generation of its object.
func TestATransformCannotDropWhatShowsADeletionOrAGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{Incomplete: true})
		g.Expect(err).NotTo(HaveOccurred())
		typed, untyped := kubernetes.NewForConfigOrDie(sim.Admin()), dynamic.NewForConfigOrDie(sim.Admin())
		sets := typed.AppsV1().ReplicaSets("d")
		made, err := sets.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Finalizers: []string{"example.com/x"}, Annotations: map[string]string{"dropped": "yes", "homeostat.dev/child": "d/a"},
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sets.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		drop := func(object informer.Object) {
			object.SetDeletionTimestamp(nil)
			object.SetGeneration(0)
			object.SetAnnotations(nil)
		}
		one := informer.For(typed.AppsV1().ReplicaSets(""), &informer.Options{Transform: drop})
		two := informer.For(informer.Untyped(untyped.Resource(appsv1.SchemeGroupVersion.WithResource("replicasets"))),
			&informer.Options{Transform: drop})
		go func() { ended <- one.Run(ctx) }()
		go func() { ended <- two.Run(ctx) }()
		synctest.Wait()
		key := types.NamespacedName{Namespace: "d", Name: "a"}
		a, _ := one.Get(key)
		var b *unstructured.Unstructured
		b, _ = two.Get(key)
		for _, object := range []metav1.Object{a, b} {
			g.Expect(object.GetDeletionTimestamp()).NotTo(BeNil())
			g.Expect(object.GetGeneration()).To(BeNumerically(">=", made.Generation))
			g.Expect(object.GetAnnotations()).To(Equal(map[string]string{"homeostat.dev/child": "d/a"}))
		}
		stop()
		g.Expect(<-ended).To(Succeed())
		g.Expect(<-ended).To(Succeed())
	})
}
