package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

// required keeps exactly the metadata that Options.Transform must keep.
func required(object informer.Object) {
	s := object.(*corev1.Secret)
	s.ObjectMeta = metav1.ObjectMeta{
		Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion,
		OwnerReferences: s.OwnerReferences, Labels: s.Labels, Finalizers: s.Finalizers,
	}
}

// Without the annotations, a copy of a child would be taken for the child and
// deleted, and each call would write the children again.
func TestAMarkSurvivesATransformThatDropsTheAnnotations(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.freeze()
		w.secrets = informer.For(w.user.CoreV1().Secrets(""), &informer.Options{Transform: required})
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, inOrder(byLabel))
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.secrets.Run(ctx) }()
		synctest.Wait()

		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		w.copyTo("theirs")
		synctest.Wait()
		w.requests()
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		w.Expect(w.requests()).To(BeEmpty())
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "theirs"}))
		w.deleteOwner()
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		synctest.Wait()
		w.Expect(w.where()).To(Equal([]string{"theirs"}))
		stop()
		w.Expect(<-ended).To(Succeed())
	})
}
