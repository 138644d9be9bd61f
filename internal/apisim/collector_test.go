package apisim_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

var _ = Describe("Collector", func() {
	var (
		sim *apisim.Server
		cs  kubernetes.Interface
		gc  *apisim.Collector
	)

	BeforeEach(func() {
		var err error
		sim, err = apisim.New(&apisim.Options{Lifecycle: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(sim.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}})).To(Succeed())
		cs = kubernetes.NewForConfigOrDie(sim.Admin())
		gc = sim.Collector()
	})

	ownedBy := func(ctx context.Context, name string, blocks bool, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
		cm := configMap(name)
		for _, o := range owners {
			cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &blocks,
			})
		}
		made, err := cs.CoreV1().ConfigMaps("d").Create(ctx, cm, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return made
	}
	names := func(ctx context.Context) []string {
		list, err := cs.CoreV1().ConfigMaps("d").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		var all []string
		for _, cm := range list.Items {
			all = append(all, cm.Name)
		}
		return all
	}
	remove := func(ctx context.Context, name string, policy metav1.DeletionPropagation) {
		Expect(cs.CoreV1().ConfigMaps("d").Delete(ctx, name,
			metav1.DeleteOptions{PropagationPolicy: &policy})).To(Succeed())
	}

	It("deletes what a deleted owner leaves, down the chain", func(ctx SpecContext) {
		a := ownedBy(ctx, "a", false)
		b := ownedBy(ctx, "b", false, a)
		ownedBy(ctx, "c", false, b)
		Expect(gc.Pending()).To(BeFalse())
		remove(ctx, "a", metav1.DeletePropagationBackground)
		Expect(gc.Pending()).To(BeTrue())
		gc.Run()
		Expect(names(ctx)).To(BeEmpty())
	})

	It("keeps what another owner still holds, without the reference to the lost one", func(ctx SpecContext) {
		a, b := ownedBy(ctx, "a", false), ownedBy(ctx, "b", false)
		ownedBy(ctx, "c", false, a, b)
		remove(ctx, "a", metav1.DeletePropagationBackground)
		gc.Run()
		c, err := cs.CoreV1().ConfigMaps("d").Get(ctx, "c", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.OwnerReferences).To(HaveLen(1))
		Expect(c.OwnerReferences[0].UID).To(Equal(b.UID))
	})

	It("deletes in the foreground: dependents first", func(ctx SpecContext) {
		a := ownedBy(ctx, "a", true)
		ownedBy(ctx, "b", true, a)
		var order []string
		sim.OnCommit(func(e apisim.Event) {
			if e.New == nil {
				order = append(order, e.Key.Name)
			}
		})
		remove(ctx, "a", metav1.DeletePropagationForeground)
		Expect(names(ctx)).To(Equal([]string{"a", "b"}))
		gc.Run()
		Expect(order).To(Equal([]string{"b", "a"}))
	})

	It("orphans on request", func(ctx SpecContext) {
		a := ownedBy(ctx, "a", false)
		ownedBy(ctx, "b", false, a)
		remove(ctx, "a", metav1.DeletePropagationOrphan)
		gc.Run()
		Expect(names(ctx)).To(Equal([]string{"b"}))
		b, err := cs.CoreV1().ConfigMaps("d").Get(ctx, "b", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.OwnerReferences).To(BeEmpty())
	})

	It("does not take a recreated owner for it", func(ctx SpecContext) {
		a := ownedBy(ctx, "a", false)
		ownedBy(ctx, "b", false, a)
		remove(ctx, "a", metav1.DeletePropagationBackground)
		ownedBy(ctx, "a", false)
		gc.Run()
		Expect(names(ctx)).To(Equal([]string{"a"}))
	})

	It("empties a terminating namespace, and waits for finalizers in it", func(ctx SpecContext) {
		ownedBy(ctx, "a", false)
		held := configMap("held")
		held.Finalizers = []string{"e.com/f"}
		_, err := cs.CoreV1().ConfigMaps("d").Create(ctx, held, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cs.CoreV1().Namespaces().Delete(ctx, "d", metav1.DeleteOptions{})).To(Succeed())
		gc.Run()
		Expect(names(ctx)).To(Equal([]string{"held"}))
		_, err = cs.CoreV1().ConfigMaps("d").Patch(ctx, "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		gc.Run()
		_, err = cs.CoreV1().Namespaces().Get(ctx, "d", metav1.GetOptions{})
		Expect(err).To(MatchError(ContainSubstring("not found")))
	})

	It("does not end a namespace by a dry run", func(ctx SpecContext) {
		held := configMap("held")
		held.Finalizers = []string{"e.com/f"}
		_, err := cs.CoreV1().ConfigMaps("d").Create(ctx, held, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cs.CoreV1().Namespaces().Delete(ctx, "d", metav1.DeleteOptions{})).To(Succeed())
		d, err := cs.CoreV1().Namespaces().Get(ctx, "d", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		d.Spec.Finalizers = nil
		_, err = cs.CoreV1().Namespaces().Finalize(ctx, d, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		_, err = cs.CoreV1().Namespaces().Get(ctx, "d", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	})
})
