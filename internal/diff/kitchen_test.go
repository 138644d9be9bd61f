package diff_test

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kitchen has one member for each case that a plan treats differently.
type kitchen struct {
	inline
	Named  inline            `json:"named"`
	Labels map[string]string `json:"labels,omitempty"`

	Text   string `json:"text,omitempty"`
	Must   string `json:"must"`
	Flag   bool   `json:"flag,omitempty"`
	Small  int8   `json:"small,omitempty"`
	Middle uint16 `json:"middle,omitempty"`
	Number *int32 `json:"number,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`

	Quantity resource.Quantity            `json:"quantity"`
	Amounts  map[string]resource.Quantity `json:"amounts,omitempty"`
	Port     *intstr.IntOrString          `json:"port,omitempty"`
	When     metav1.Time                  `json:"when,omitzero"`
	Micro    *metav1.MicroTime            `json:"micro,omitempty"`
	Raw      runtime.RawExtension         `json:"raw"`
	Fields   *metav1.FieldsV1             `json:"fields,omitempty"`

	Union   union            `json:"union" patchStrategy:"retainKeys"`
	Atomic  *union           `json:"atomic,omitempty" patchStrategy:"replace"`
	Plain   []string         `json:"plain,omitempty"`
	Scalars []string         `json:"scalars,omitempty" patchStrategy:"merge"`
	Items   []item           `json:"items,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Ports   []numbered       `json:"ports,omitempty" patchStrategy:"merge,retainKeys" patchMergeKey:"number"`
	Structs map[string]union `json:"structs,omitempty"`
}

type inline struct {
	Kind  string `json:"kind,omitempty"`
	Count int64  `json:"count"`
}

type union struct {
	Type string  `json:"type,omitempty"`
	One  *inline `json:"one,omitempty"`
	Two  *inline `json:"two,omitempty"`

	Extra map[string]string `json:"extra,omitempty"`
}

type item struct {
	Name   string     `json:"name,omitempty"`
	Value  string     `json:"value,omitempty"`
	Nested []numbered `json:"nested,omitempty" patchStrategy:"merge" patchMergeKey:"number"`
	Union  union      `json:"union,omitzero"`
}

type numbered struct {
	Number int32   `json:"number"`
	Text   string  `json:"text,omitempty"`
	One    *inline `json:"one,omitempty"`
	Two    *inline `json:"two,omitempty"`
}
