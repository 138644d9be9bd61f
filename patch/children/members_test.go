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
	"github.com/homeostat/homeostat/patch"
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

// withCache runs test with a set of children of type T, and with a function
// that updates the set's children and waits for the cache.
func withCache[T informer.Object, C interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	patch.CreateClient[T]
}](
	w *fixture, cache *informer.Informer[T], clients func(namespace string) C,
	test func(ensure func(children.Child[T]) error),
) {
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(ctx) }()
	defer func() {
		stop()
		w.Expect(<-ended).To(Succeed())
	}()
	synctest.Wait()
	set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, cache, clients, nil)
	test(func(wanted children.Child[T]) error {
		_, err := set.Ensure(ctx, w.owner, wanted)
		synctest.Wait()
		return err
	})
}

// The server refuses a change of "spec", and names only the members that may
// change.
func TestAVolumeClaimTemplateKeepsNoOtherFieldOfAStatefulSet(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		sets := w.client.AppsV1().StatefulSets
		withCache(w, informer.For(sets(""), nil), sets, func(ensure func(children.Child[*appsv1.StatefulSet]) error) {
			w.Expect(ensure(database("1Gi", "db:1", 1))).To(Succeed())
			err := ensure(database("2Gi", "db:2", 3))
			w.Expect(err).To(MatchError(ContainSubstring("the child's fields spec.volumeClaimTemplates are immutable")))
			got, err := w.user.AppsV1().StatefulSets("d").Get(w.t.Context(), "db", metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(got.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
			w.Expect(got.Spec.Template.Spec.Containers[0].Image).To(Equal("db:2"))
			size := got.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]
			w.Expect(size.String()).To(Equal("1Gi"))
		})
	})
}

// claim is a PersistentVolumeClaim of the size and the class.
func claim(size, class string) children.Child[*corev1.PersistentVolumeClaim] {
	return children.Child[*corev1.PersistentVolumeClaim]{Name: "data", Edit: func(c *corev1.PersistentVolumeClaim) {
		c.Labels = map[string]string{"size": size}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.StorageClassName = &class
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}}
}

// The server lets the size of a claim grow once the claim is bound.
func TestAWrongStorageClassKeepsNoOtherFieldOfAClaim(t *testing.T) {
	for _, bound := range []bool{true, false} {
		inFixture(t, nil, func(w *fixture) {
			claims := w.client.CoreV1().PersistentVolumeClaims
			withCache(w, informer.For(claims(""), nil), claims, func(ensure func(children.Child[*corev1.PersistentVolumeClaim]) error) {
				w.Expect(ensure(claim("1Gi", "slow"))).To(Succeed())
				claims, want := w.user.CoreV1().PersistentVolumeClaims("d"), "1Gi"
				if bound {
					got, err := claims.Get(w.t.Context(), "data", metav1.GetOptions{})
					w.Expect(err).NotTo(HaveOccurred())
					got.Spec.VolumeName = "pv"
					got, err = claims.Update(w.t.Context(), got, metav1.UpdateOptions{})
					w.Expect(err).NotTo(HaveOccurred())
					got.Status.Phase, want = corev1.ClaimBound, "2Gi"
					_, err = claims.UpdateStatus(w.t.Context(), got, metav1.UpdateOptions{})
					w.Expect(err).NotTo(HaveOccurred())
					synctest.Wait()
				}
				w.Expect(ensure(claim("2Gi", "fast"))).To(MatchError(ContainSubstring(
					"the child's fields spec.storageClassName are immutable")))
				got, err := claims.Get(w.t.Context(), "data", metav1.GetOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				size := got.Spec.Resources.Requests[corev1.ResourceStorage]
				w.Expect(size.String()).To(Equal(want))
				w.Expect(got.Labels).To(HaveKeyWithValue("size", "2Gi"))
				w.Expect(got.Spec.StorageClassName).To(HaveValue(Equal("slow")))
			})
		})
	}
}

// worker is a Pod whose container has the image and an environment.
func worker(image, value string, more ...corev1.Container) children.Child[*corev1.Pod] {
	return children.Child[*corev1.Pod]{Name: "worker", Edit: func(p *corev1.Pod) {
		p.Annotations = map[string]string{"image": image}
		p.Spec.Containers = append([]corev1.Container{
			{Name: "worker", Image: image, Env: []corev1.EnvVar{{Name: "A", Value: value}}},
		}, more...)
	}}
}

func TestAnEnvironmentKeepsNoOtherFieldOfAPod(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		pods := w.client.CoreV1().Pods
		withCache(w, informer.For(pods(""), nil), pods, func(ensure func(children.Child[*corev1.Pod]) error) {
			w.Expect(ensure(worker("a:1", "1"))).To(Succeed())
			pod := func() *corev1.Pod {
				got, err := w.user.CoreV1().Pods("d").Get(w.t.Context(), "worker", metav1.GetOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				return got
			}
			w.Expect(ensure(worker("a:2", "2"))).To(MatchError(ContainSubstring("the child's fields spec.containers are immutable")))
			w.Expect(pod().Spec.Containers[0].Image).To(Equal("a:2"))
			w.Expect(pod().Spec.Containers[0].Env[0].Value).To(Equal("1"))
			w.Expect(pod().Annotations).To(HaveKeyWithValue("image", "a:2"))

			err := ensure(worker("a:3", "1", corev1.Container{Name: "more", Image: "b:1"}))
			w.Expect(err).To(MatchError(ContainSubstring("the child's fields spec.containers are immutable")))
			w.Expect(pod().Spec.Containers).To(HaveLen(1))
			w.Expect(pod().Annotations).To(HaveKeyWithValue("image", "a:3"))
		})
	})
}

// The texts are those of Kubernetes 1.34 to 1.37. The difference that follows
// may contain anything.
func TestTheMembersThatMayChangeAreRead(t *testing.T) {
	const difference = "\n  core.PodSpec{\n- \tNodeName: \"`spec.nodeName`\", 'x', fields other than 'y'"
	for text, want := range map[string][]string{
		"updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', " +
			"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden": {
			"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
			"persistentVolumeClaimRetentionPolicy", "minReadySeconds",
		},
		"pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
			"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)" + difference: {
			"containers[*].image", "initContainers[*].image", "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds",
		},
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims" + difference: {
			"resources.requests", "volumeAttributesClassName",
		},
		"is immutable after creation except resources.requests for bound claims": {"resources.requests"},
		"field is immutable": nil,
		"spec.persistentvolumesource is immutable after creation" + difference: nil,
	} {
		g := NewWithT(t)
		g.Expect(children.MutableMembers("spec", text)).To(Equal(want), text)
	}
}
