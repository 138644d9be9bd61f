package diff_test

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// features are the parts of a kitchen, so small that very many of them can be
// tried.
var features = []reflect.Type{
	reflect.TypeFor[struct {
		inline
		Text   string `json:"text,omitempty"`
		Must   string `json:"must"`
		Flag   bool   `json:"flag,omitempty"`
		Number *int32 `json:"number,omitempty"`
		Bytes  []byte `json:"bytes,omitempty"`
	}](),
	reflect.TypeFor[struct {
		Plain   []string `json:"plain,omitempty"`
		Must    []string `json:"must"`
		Scalars []string `json:"scalars,omitempty" patchStrategy:"merge"`
	}](),
	reflect.TypeFor[struct {
		Items []item `json:"items,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	}](),
	reflect.TypeFor[struct {
		Ports []numbered `json:"ports,omitempty" patchStrategy:"merge,retainKeys" patchMergeKey:"number"`
	}](),
	reflect.TypeFor[struct {
		Union  union  `json:"union" patchStrategy:"retainKeys"`
		Atomic *union `json:"atomic,omitempty" patchStrategy:"replace"`
	}](),
	reflect.TypeFor[struct {
		Labels  map[string]string            `json:"labels,omitempty"`
		Must    map[string]string            `json:"must"`
		Amounts map[string]resource.Quantity `json:"amounts,omitempty"`
		Structs map[string]union             `json:"structs,omitempty"`
	}](),
	reflect.TypeFor[struct {
		Port *intstr.IntOrString  `json:"port,omitempty"`
		When metav1.Time          `json:"when,omitzero"`
		Raw  runtime.RawExtension `json:"raw"`
	}](),
	reflect.TypeFor[metav1.OwnerReference](),
}
