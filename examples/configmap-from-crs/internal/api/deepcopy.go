package api

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy returns a copy that shares no memory with s.
func (s *Setting) DeepCopy() *Setting {
	if s == nil {
		return nil
	}
	copied := *s
	copied.ObjectMeta = *s.ObjectMeta.DeepCopy()
	copied.Status.Conditions = slices.Clone(s.Status.Conditions)
	return &copied
}

// DeepCopyObject returns DeepCopy as a runtime.Object.
func (s *Setting) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopy returns a copy that shares no memory with l.
func (l *SettingList) DeepCopy() *SettingList {
	if l == nil {
		return nil
	}
	copied := *l
	copied.ListMeta = *l.ListMeta.DeepCopy()
	copied.Items = slices.Clone(l.Items)
	for i := range copied.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return &copied
}

// DeepCopyObject returns DeepCopy as a runtime.Object.
func (l *SettingList) DeepCopyObject() runtime.Object { return l.DeepCopy() }
