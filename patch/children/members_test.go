package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

// database is a StatefulSet with a volume of the size.
func database(size, image string, replicas int32) children.Child[*appsv1.StatefulSet] {
	return children.Child[*appsv1.StatefulSet]{Name: "db", Edit: func(s *appsv1.StatefulSet) {
		app := map[string]string{"app": "db"}
		s.Spec.Replicas = &replicas
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
		s.Spec.Template.Labels = app
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: image}}
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
				},
			},
		}}
	}}
}

// The server refuses a change of "spec", and names only the members that may
// change.
func TestAVolumeClaimTemplateKeepsNoOtherFieldOfAStatefulSet(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		cache := informer.For(w.client.AppsV1().StatefulSets(""), nil)
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- cache.Run(ctx) }()
		defer func() {
			stop()
			w.Expect(<-ended).To(Succeed())
		}()
		synctest.Wait()
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, cache, w.client.AppsV1().StatefulSets, nil)
		_, err := set.Ensure(ctx, w.owner, database("1Gi", "db:1", 1))
		w.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		_, err = set.Ensure(ctx, w.owner, database("2Gi", "db:2", 3))
		w.Expect(err).To(MatchError(ContainSubstring("fields spec.volumeClaimTemplates of it are immutable")))
		got, err := w.user.AppsV1().StatefulSets("d").Get(ctx, "db", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(got.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		w.Expect(got.Spec.Template.Spec.Containers[0].Image).To(Equal("db:2"))
		size := got.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
		w.Expect(size.String()).To(Equal("1Gi"))
	})
}
