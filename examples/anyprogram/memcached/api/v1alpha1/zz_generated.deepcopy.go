package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies in into out.
func (in *Memcached) DeepCopyInto(out *Memcached) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopy returns a copy.
func (in *Memcached) DeepCopy() *Memcached {
	out := &Memcached{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy.
func (in *Memcached) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject returns a copy.
func (in *MemcachedList) DeepCopyObject() runtime.Object {
	out := &MemcachedList{TypeMeta: in.TypeMeta, Items: make([]Memcached, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
