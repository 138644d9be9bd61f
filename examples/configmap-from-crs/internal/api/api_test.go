package api_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
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
	for key := range copied.Items[0].Labels {
		copied.Items[0].Labels[key] = "another"
	}
	g.Expect(list.Items[0].Status.Conditions[0].Message).NotTo(Equal("another"))
	g.Expect(list.Items[0].Labels).NotTo(ContainElement("another"))
}
