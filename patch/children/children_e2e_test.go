//go:build e2e

package children_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

func TestE2EChildren(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "children on the real server", Label("e2e"))
}

const patience = time.Minute

var (
	server *e2e.Cluster
	client kubernetes.Interface
)

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	server, err = e2e.Start(ctx, &e2e.Options{Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(server.Stop()).To(Succeed()) })
	client, err = kubernetes.NewForConfig(server.Config())
	Expect(err).NotTo(HaveOccurred())
})

// family is an owner on the real server, and the set of its children with a
// cache.
type family struct {
	space string
	owner *corev1.ConfigMap
	in    *informer.Informer[*corev1.Secret]
	set   *children.Set[*corev1.Secret]
}

func newFamily(ctx context.Context, o *children.Options) *family {
	GinkgoHelper()
	return newNarrowFamily(ctx, o, nil)
}

// newNarrowFamily is newFamily with options of the cache.
func newNarrowFamily(ctx context.Context, o *children.Options, cached *informer.Options) *family {
	GinkgoHelper()
	space, err := server.Namespace(ctx, "children")
	Expect(err).NotTo(HaveOccurred())
	f := &family{space: space, in: informer.For(client.CoreV1().Secrets(space), cached)}
	f.set = children.New(ownerKind, client.CoreV1().ConfigMaps, f.in, client.CoreV1().Secrets, o)
	f.owner = f.newOwner(ctx)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.in.Run(running) }()
	DeferCleanup(func() {
		stop()
		Expect(<-ended).To(Succeed())
	})
	Expect(f.in.WaitForSync(ctx)).To(Succeed())
	return f
}

func (f *family) newOwner(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()
	owner, err := client.CoreV1().ConfigMaps(f.space).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "site"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return owner
}

// ensure calls Ensure with a cache that is as new as the server.
func (f *family) ensure(ctx context.Context, names ...string) error {
	GinkgoHelper()
	Expect(f.in.WaitForLatest(ctx)).To(Succeed())
	_, err := f.set.Ensure(ctx, f.owner, wants(names...)...)
	return err
}

func (f *family) has(ctx context.Context) []string {
	GinkgoHelper()
	all, err := client.CoreV1().Secrets(f.space).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	return names
}

var _ = Describe("On the real server", func() {
	It("a hundred children come, stay within the limit, change and go with their owner", func(ctx SpecContext) {
		f, names := newFamily(ctx, nil), named(100)
		Expect(f.ensure(ctx, names...)).To(Succeed())
		Expect(f.has(ctx)).To(Equal(names))
		Expect(f.ensure(ctx, names[60:]...)).To(MatchError(children.ErrLimit))
		Expect(f.has(ctx)).To(Equal(names))
		Expect(f.ensure(ctx, names[50:]...)).To(Succeed())
		Expect(f.has(ctx)).To(Equal(names[50:]))
		Expect(f.in.WaitForLatest(ctx)).To(Succeed())
		before := f.in.Snapshot()
		for range 3 {
			Expect(f.ensure(ctx, names[50:]...)).To(Succeed())
		}
		Expect(f.in.WaitForLatest(ctx)).To(Succeed())
		Expect(f.in.Snapshot()).To(Equal(before), "nothing is written")
		Expect(client.CoreV1().ConfigMaps(f.space).Delete(ctx, "site", metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func() []string { return f.has(ctx) }, patience).Should(BeEmpty(), "the garbage collector")
	}, SpecTimeout(3*time.Minute))

	It("a child with an immutable field is named, the rest is written, and it is created again if that is allowed", func(ctx SpecContext) {
		f := newFamily(ctx, nil)
		yes := true
		edit := func(value string) child {
			return child{Name: "fixed", Edit: func(s *corev1.Secret) {
				s.Immutable = &yes
				s.Data = map[string][]byte{"is": []byte(value)}
				s.Labels = map[string]string{"is": value}
			}}
		}
		ensure := func(value string) error {
			_, err := f.set.Ensure(ctx, f.owner, edit(value))
			Expect(f.in.WaitForLatest(ctx)).To(Succeed())
			return err
		}
		Expect(ensure("a")).To(Succeed())
		Expect(ensure("b")).To(MatchError(ContainSubstring("the child's fields data are immutable")))
		got, err := client.CoreV1().Secrets(f.space).Get(ctx, "fixed", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Labels).To(HaveKeyWithValue("is", "b"))
		Expect(got.Data).To(HaveKeyWithValue("is", []byte("a")))

		f.set = children.New(ownerKind, client.CoreV1().ConfigMaps, f.in, client.CoreV1().Secrets, &children.Options{MaxRecreate: 1})
		Expect(ensure("c")).To(MatchError(patch.IsStale, "IsStale"))
		Expect(ensure("c")).To(Succeed())
		got, err = client.CoreV1().Secrets(f.space).Get(ctx, "fixed", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Data).To(HaveKeyWithValue("is", []byte("c")))
	})

	It("a recreated owner waits for the garbage collector, and a late cache deletes nothing", func(ctx SpecContext) {
		f := newFamily(ctx, &children.Options{Mark: ours})
		Expect(f.ensure(ctx, "a", "b")).To(Succeed())
		old := f.owner
		Expect(client.CoreV1().ConfigMaps(f.space).Delete(ctx, "site", metav1.DeleteOptions{})).To(Succeed())
		f.owner = f.newOwner(ctx)
		Eventually(ctx, func() error { return f.ensure(ctx, "a") }, patience).Should(Succeed())
		got, err := client.CoreV1().Secrets(f.space).Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(metav1.IsControlledBy(got, f.owner)).To(BeTrue())
		f.owner = old
		Expect(f.ensure(ctx)).To(Succeed(), "nothing is its")
		Expect(f.has(ctx)).To(ContainElement("a"))
	}, SpecTimeout(2*time.Minute))

	It("a cache by label does not hide a child that lacks the label, nor an object of another", func(ctx SpecContext) {
		f := newNarrowFamily(ctx, &children.Options{Mark: ours}, &informer.Options{LabelSelector: "ours=yes"})
		Expect(f.ensure(ctx, "a")).To(Succeed())
		_, err := client.CoreV1().Secrets(f.space).Patch(ctx, "a", "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(f.in.WaitForLatest(ctx)).To(Succeed())
		Expect(f.in.Snapshot().Len()).To(BeZero())
		Expect(f.ensure(ctx, "a")).To(Succeed())
		Expect(f.in.WaitForLatest(ctx)).To(Succeed())
		Expect(f.in.Snapshot().Len()).To(Equal(1))
		_, err = client.CoreV1().Secrets(f.space).Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(f.ensure(ctx, "a", "foreign")).To(MatchError(children.ErrForeign))
	})

	It("a child that has lost its owner is adopted, and one of another owner refused", func(ctx SpecContext) {
		f := newFamily(ctx, &children.Options{Mark: ours})
		Expect(f.ensure(ctx, "a")).To(Succeed())
		_, err := client.CoreV1().Secrets(f.space).Patch(ctx, "a", "application/merge-patch+json",
			[]byte(`{"metadata":{"ownerReferences":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(f.ensure(ctx, "a")).To(Succeed())
		got, err := client.CoreV1().Secrets(f.space).Get(ctx, "a", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(metav1.IsControlledBy(got, f.owner)).To(BeTrue())

		Expect(f.in.WaitForLatest(ctx)).To(Succeed())
		other := f.owner.DeepCopy()
		other.UID, other.Name = "another", "another"
		_, err = f.set.Ensure(ctx, other, wants("a")...)
		Expect(err).To(MatchError(ContainSubstring(`ConfigMap "site" with UID`)))
		changed, err := patch.Merge(ctx, client.CoreV1().ConfigMaps, f.owner, nil, func(m *corev1.ConfigMap) {
			m.Data = map[string]string{"wants": "more"}
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(f.ensure(ctx)).To(MatchError(patch.IsStale, "IsStale"))
		f.owner = changed
		Expect(f.ensure(ctx)).To(Succeed())
		Expect(f.has(ctx)).To(BeEmpty())
	}, SpecTimeout(2*time.Minute))

	It("a namespaced owner has children by label in other namespaces, which nothing else deletes", func(ctx SpecContext) {
		f := newFamily(ctx, nil)
		elsewhere, err := server.Namespace(ctx, "elsewhere")
		Expect(err).NotTo(HaveOccurred())
		secrets := informer.For(client.CoreV1().Secrets(""), nil)
		set := children.New(ownerKind, client.CoreV1().ConfigMaps, secrets, client.CoreV1().Secrets, byLabel)
		running, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- secrets.Run(running) }()
		DeferCleanup(func() {
			stop()
			Expect(<-ended).To(Succeed())
		})
		Expect(secrets.WaitForSync(ctx)).To(Succeed())
		ensure := func(owner *corev1.ConfigMap, namespaces ...string) error {
			Expect(secrets.WaitForLatest(ctx)).To(Succeed())
			_, err := set.Ensure(ctx, owner, in(namespaces...)...)
			return err
		}
		get := func(namespace string) (*corev1.Secret, error) {
			return client.CoreV1().Secrets(namespace).Get(ctx, "copy", metav1.GetOptions{})
		}
		Expect(ensure(f.owner, f.space, elsewhere)).To(Succeed())
		before, err := get(elsewhere)
		Expect(err).NotTo(HaveOccurred())
		Consistently(ctx, func() error {
			_, err := get(elsewhere)
			return err
		}, 5*time.Second).Should(Succeed(), "the garbage collector has nothing against it")

		Expect(client.CoreV1().ConfigMaps(f.space).Delete(ctx, "site", metav1.DeleteOptions{})).To(Succeed())
		recreated := f.newOwner(ctx)
		Expect(ensure(f.owner, elsewhere)).To(MatchError(patch.IsStale, "IsStale"), "the cached owner is deleted")
		Expect(ensure(recreated, elsewhere)).To(Succeed())
		after, err := get(elsewhere)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID), "it is adopted")
		Expect(after.Labels).To(HaveKeyWithValue("homeostat.dev/owner-uid", string(recreated.UID)))
		_, err = get(f.space)
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"), "the other one is not wanted")

		Expect(secrets.WaitForLatest(ctx)).To(Succeed())
		key := types.NamespacedName{Namespace: f.space, Name: "site"}
		Expect(set.DeleteOrphans(ctx, key)).To(Succeed())
		_, err = get(elsewhere)
		Expect(err).NotTo(HaveOccurred(), "its owner is there")
		Expect(client.CoreV1().ConfigMaps(f.space).Delete(ctx, "site", metav1.DeleteOptions{})).To(Succeed())
		Expect(set.DeleteOrphans(ctx, key)).To(Succeed())
		_, err = get(elsewhere)
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}, SpecTimeout(2*time.Minute))

	It("the references that Own refuses are punished", func(ctx SpecContext) {
		f := newFamily(ctx, nil)
		elsewhere, err := server.Namespace(ctx, "elsewhere")
		Expect(err).NotTo(HaveOccurred())
		ref := []metav1.OwnerReference{*metav1.NewControllerRef(f.owner, ownerKind)}
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign", OwnerReferences: ref}}
		_, err = client.CoreV1().Secrets(elsewhere).Create(ctx, foreign, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() error {
			_, err := client.CoreV1().Secrets(elsewhere).Get(ctx, "foreign", metav1.GetOptions{})
			return err
		}, patience).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "it is deleted although its owner lives")

		wide := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "wide-" + f.space, OwnerReferences: ref}}
		_, err = client.RbacV1().ClusterRoles().Create(ctx, wide, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(client.CoreV1().ConfigMaps(f.space).Delete(ctx, "site", metav1.DeleteOptions{})).To(Succeed())
		Consistently(ctx, func() error {
			_, err := client.RbacV1().ClusterRoles().Get(ctx, wide.Name, metav1.GetOptions{})
			return err
		}, 10*time.Second).Should(Succeed(), "nothing deletes it, although its owner is deleted")
	}, SpecTimeout(2*time.Minute))
})
