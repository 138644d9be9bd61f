package api

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy returns a copy that shares no memory with g.
func (g *RebootGroup) DeepCopy() *RebootGroup {
	if g == nil {
		return nil
	}
	out := *g
	out.ObjectMeta = *g.ObjectMeta.DeepCopy()
	out.Spec.NodeSelector = g.Spec.NodeSelector.DeepCopy()
	out.Spec.Windows = slices.Clone(g.Spec.Windows)
	for i := range out.Spec.Windows {
		out.Spec.Windows[i].Days = slices.Clone(out.Spec.Windows[i].Days)
	}
	out.Status = *g.Status.DeepCopy()
	return &out
}

// DeepCopyObject returns DeepCopy as a runtime.Object.
func (g *RebootGroup) DeepCopyObject() runtime.Object { return g.DeepCopy() }

// DeepCopy returns a copy that shares no memory with s.
func (s *RebootGroupStatus) DeepCopy() *RebootGroupStatus {
	if s == nil {
		return nil
	}
	out := *s
	out.Slots = slices.Clone(s.Slots) // A metav1.Time is never modified in place.
	out.Queue = slices.Clone(s.Queue)
	out.Conditions = slices.Clone(s.Conditions)
	return &out
}

// DeepCopy returns a copy that shares no memory with l.
func (l *RebootGroupList) DeepCopy() *RebootGroupList {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	if l.Items != nil {
		out.Items = make([]RebootGroup, 0, len(l.Items))
		for i := range l.Items {
			out.Items = append(out.Items, *l.Items[i].DeepCopy())
		}
	}
	return &out
}

// DeepCopyObject returns DeepCopy as a runtime.Object.
func (l *RebootGroupList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

var (
	_ runtime.Object = &RebootGroup{}
	_ metav1.Object  = &RebootGroup{}
	_ runtime.Object = &RebootGroupList{}
)
