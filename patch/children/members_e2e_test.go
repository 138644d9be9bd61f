//go:build e2e

package children_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// ensurer returns a function that updates the children of f's owner of type T,
// and waits for the cache.
func ensurer[T informer.Object, C interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	patch.CreateClient[T]
}](ctx context.Context, f *family, cache *informer.Informer[T], clients func(namespace string) C) func(children.Child[T]) error {
	GinkgoHelper()
	background, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cache.Run(background) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
	Expect(cache.WaitForLatest(ctx)).To(Succeed())
	set := children.New(ownerKind, client.CoreV1().ConfigMaps, cache, clients, nil)
	return func(wanted children.Child[T]) error {
		_, err := set.Ensure(ctx, f.owner, wanted)
		Expect(cache.WaitForLatest(ctx)).To(Succeed())
		return err
	}
}

var _ = Describe("On the real server, a refusal that names the fields that may change", func() {
	It("keeps no such field of a claim", func(ctx SpecContext) {
		f := newFamily(ctx, nil)
		slow := f.space + "-slow"
		claims := client.CoreV1().PersistentVolumeClaims
		ensure := ensurer(ctx, f, informer.For(claims(f.space), nil), claims)
		_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: slow}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.StorageV1().StorageClasses().Delete, slow, metav1.DeleteOptions{})
		Expect(ensure(claim("1Gi", slow))).To(Succeed())
		claimIs := func(size, label string) {
			GinkgoHelper()
			got, err := claims(f.space).Get(ctx, "data", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Spec.Resources.Requests.Storage().String()).To(Equal(size))
			Expect(got.Spec.StorageClassName).To(HaveValue(Equal(slow)))
			Expect(got.Labels).To(HaveKeyWithValue("size", label))
		}
		Expect(ensure(claim("2Gi", "fast"))).To(MatchError(ContainSubstring("the child's fields spec.storageClassName are immutable")))
		claimIs("1Gi", "2Gi") // the claim is not bound, so its size may not change either

		// No controller binds volumes here.
		got, err := claims(f.space).Get(ctx, "data", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		got.Spec.VolumeName = f.space
		got, err = claims(f.space).Update(ctx, got, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		got.Status.Phase = corev1.ClaimBound
		_, err = claims(f.space).UpdateStatus(ctx, got, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(ensure(claim("3Gi", "fast"))).To(MatchError(ContainSubstring("the child's fields spec.storageClassName are immutable")))
		claimIs("3Gi", "3Gi")
	}, SpecTimeout(3*time.Minute))

	It("keeps no such field of a Pod", func(ctx SpecContext) {
		f := newFamily(ctx, nil)
		pods := client.CoreV1().Pods
		ensure := ensurer(ctx, f, informer.For(pods(f.space), nil), pods)
		Eventually(func() error { return ensure(worker("a:1", "1")) }, patience).Should(Succeed(), "the service account")
		Expect(ensure(worker("a:2", "2"))).To(MatchError(ContainSubstring("the child's fields spec.containers are immutable")))
		got, err := pods(f.space).Get(ctx, "worker", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Spec.Containers[0].Image).To(Equal("a:2"))
		Expect(got.Spec.Containers[0].Env[0].Value).To(Equal("1"))
		Expect(got.Annotations).To(HaveKeyWithValue("image", "a:2"))

		err = ensure(worker("a:3", "1", corev1.Container{Name: "more", Image: "b:1"}))
		Expect(err).To(MatchError(ContainSubstring("the child's fields spec.containers are immutable")))
		got, err = pods(f.space).Get(ctx, "worker", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Annotations).To(HaveKeyWithValue("image", "a:3"))
	}, SpecTimeout(3*time.Minute))
})
