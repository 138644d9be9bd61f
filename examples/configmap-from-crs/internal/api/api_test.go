package api_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/randfill"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
)

// A hand-written copy is wrong when a field is added: so fill every field,
// edit every field of the copy, and look at the original.
func TestDeepCopySharesNothing(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 3)
	for _, object := range []runtime.Object{&api.Setting{}, &api.SettingList{}} {
		g := NewWithT(t)
		fill.Fill(object)
		before := object.DeepCopyObject()
		g.Expect(before).To(Equal(object))
		edited := object.DeepCopyObject()
		fill.Fill(edited)
		g.Expect(object).To(Equal(before))
	}
	g := NewWithT(t)
	g.Expect((*api.Setting)(nil).DeepCopy()).To(BeNil())
	g.Expect((*api.SettingList)(nil).DeepCopy()).To(BeNil())
}

func TestDeepCopyCopiesSlicesAndMaps(t *testing.T) {
	g := NewWithT(t)
	fill := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1)
	list := &api.SettingList{}
	fill.Fill(list)
	copied := list.DeepCopy()
	copied.Items[0].Status.Conditions[0].Message = "another"
	*copied.RemainingItemCount = -1
	for key := range copied.Items[0].Labels {
		copied.Items[0].Labels[key] = "another"
	}
	g.Expect(list.Items[0].Status.Conditions[0].Message).NotTo(Equal("another"))
	g.Expect(*list.RemainingItemCount).NotTo(BeEquivalentTo(-1))
	g.Expect(list.Items[0].Labels).NotTo(ContainElement("another"))
}

// The client and the server need these properties of the type.
func TestSettingsAreAKindOfTheServer(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{{
		Group: api.Group, Version: api.Version, Resource: api.Resource, Kind: api.Kind, Namespaced: true,
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	settings, err := api.NewKind(stage.Reach(sim.Config("user")))
	g.Expect(err).NotTo(HaveOccurred())
	made, err := settings.In("d").Create(t.Context(), &api.Setting{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: api.SettingSpec{Key: "k", Value: "v"},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.Spec).To(Equal(api.SettingSpec{Key: "k", Value: "v"}))
	all, err := settings.In("").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(ConsistOf(HaveField("Name", "a")))

	scheme := runtime.NewScheme()
	g.Expect(api.AddToScheme(scheme)).To(Succeed())
	g.Expect(scheme.Recognizes(schema.GroupVersionKind{Group: "config.homeostat.dev", Version: "v1alpha1", Kind: "Setting"})).To(BeTrue())
	g.Expect(scheme.Recognizes(api.GroupVersion().WithKind("SettingList"))).To(BeTrue())
	g.Expect(scheme.Recognizes(api.GroupVersion().WithKind("ListOptions"))).To(BeTrue())
}
