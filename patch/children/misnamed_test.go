package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// volume returns a PersistentVolume. edit sets the field that may not change.
func volume(size string, edit func(*corev1.PersistentVolumeSpec)) children.Child[*corev1.PersistentVolume] {
	return children.Child[*corev1.PersistentVolume]{Name: "disk", Edit: func(v *corev1.PersistentVolume) {
		v.Labels = map[string]string{"size": size}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		edit(&v.Spec)
	}}
}

func onServer(server string) func(*corev1.PersistentVolumeSpec) {
	return func(s *corev1.PersistentVolumeSpec) { s.NFS = &corev1.NFSVolumeSource{Server: server, Path: "/"} }
}

// withMarks is like withCache, with children that have no namespace.
func withMarks[T informer.Object, C interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	patch.CreateClient[T]
}](w *fixture, cache *informer.Informer[T], client C, test func(ensure func(children.Child[T]) error)) {
	withCache(w, cache, patch.ClusterScoped(client), func(func(children.Child[T]) error) {
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, cache, patch.ClusterScoped(client), byLabel)
		test(func(wanted children.Child[T]) error {
			_, err := set.Ensure(w.t.Context(), w.owner, wanted)
			synctest.Wait()
			return err
		})
	})
}

// The server names spec.persistentvolumesource for each of the sources, and
// volumeMode for spec.volumeMode.
func TestAFieldThatTheServerMisnamesKeepsNoOtherFieldOfAVolume(t *testing.T) {
	for want, edit := range map[string]func(*corev1.PersistentVolumeSpec){
		"spec.nfs": onServer("b"),
		"spec.nfs, spec.csi": func(s *corev1.PersistentVolumeSpec) {
			s.NFS, s.CSI = nil, &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "1"}
		},
		"spec.volumeMode": func(s *corev1.PersistentVolumeSpec) {
			onServer("a")(s)
			s.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		},
	} {
		inFixture(t, nil, func(w *fixture) {
			volumes := w.client.CoreV1().PersistentVolumes()
			withMarks(w, informer.For(volumes, nil), volumes, func(ensure func(children.Child[*corev1.PersistentVolume]) error) {
				w.Expect(ensure(volume("1Gi", onServer("a")))).To(Succeed())
				w.Expect(ensure(volume("2Gi", edit))).To(MatchError(ContainSubstring("the child's fields " + want + " are immutable")))
				got, err := volumes.Get(w.t.Context(), "disk", metav1.GetOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(got.Spec.Capacity.Storage().String()).To(Equal("2Gi"))
				w.Expect(got.Labels).To(HaveKeyWithValue("size", "2Gi"))
				w.Expect(got.Spec.PersistentVolumeSource).To(Equal(corev1.PersistentVolumeSource{
					NFS: &corev1.NFSVolumeSource{Server: "a", Path: "/"},
				}))
			})
		})
	}
}

// The server names spec.attachedRequired for spec.attachRequired.
func TestAFieldThatTheServerMisnamesKeepsNoOtherFieldOfADriver(t *testing.T) {
	driver := func(attach bool) children.Child[*storagev1.CSIDriver] {
		return children.Child[*storagev1.CSIDriver]{Name: "example.com", Edit: func(d *storagev1.CSIDriver) {
			d.Spec.AttachRequired, d.Spec.PodInfoOnMount = new(attach), new(!attach)
		}}
	}
	inFixture(t, nil, func(w *fixture) {
		drivers := w.client.StorageV1().CSIDrivers()
		withMarks(w, informer.For(drivers, nil), drivers, func(ensure func(children.Child[*storagev1.CSIDriver]) error) {
			w.Expect(ensure(driver(true))).To(Succeed())
			w.Expect(ensure(driver(false))).To(MatchError(ContainSubstring("the child's fields spec.attachRequired are immutable")))
			got, err := drivers.Get(w.t.Context(), "example.com", metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(got.Spec.AttachRequired).To(HaveValue(BeTrue()))
			w.Expect(got.Spec.PodInfoOnMount).To(HaveValue(BeTrue()))
		})
	})
}
