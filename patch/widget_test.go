package patch_test

import (
	"encoding/json"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// widget is a custom kind.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              widgetSpec   `json:"spec"`
	Status            widgetStatus `json:"status"`
}

type widgetSpec struct {
	Size     int               `json:"size"`
	Color    string            `json:"color,omitempty"`
	Parts    []part            `json:"parts,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Settings map[string]string `json:"settings,omitempty"`
	Bare     map[string]string `json:"bare"`
	Limit    *int              `json:"limit,omitempty"`
	Rules    []rule            `json:"rules,omitempty"`
	Network  network           `json:"network,omitzero"`
	Retries  []metav1.Duration `json:"retries,omitempty"`
	Groups   map[string][]rule `json:"groups,omitempty"`
	Matrix   [][]rule          `json:"matrix,omitempty"`

	Hosts  map[host]rule         `json:"hosts,omitempty"`
	Colors map[host]string       `json:"colors,omitempty"`
	Pools  map[netip.Prefix]rule `json:"pools,omitempty"`

	Image  image             `json:"image,omitzero"`
	Images map[string]*image `json:"images,omitempty"`
	Env    env               `json:"env,omitempty"`
	Steps  steps             `json:"steps,omitempty"`
	Port   *listener         `json:"port,omitempty"`

	Weights []float32 `json:"weights,omitempty"`

	Values *runtime.RawExtension            `json:"values,omitempty"`
	Charts []chart                          `json:"charts,omitempty"`
	Named  map[string]*runtime.RawExtension `json:"named,omitempty"`
}

// chart has values in any form, as those of Helm.
type chart struct {
	Name   string                `json:"name,omitempty"`
	Values *runtime.RawExtension `json:"values,omitempty"`
}

// host is a name that is read in lower case.
type host string

func (h *host) UnmarshalText(text []byte) error {
	*h = host(strings.ToLower(string(text)))
	return nil
}

// rule has no key.
type rule struct {
	Host  string   `json:"host,omitempty"`
	Port  int      `json:"port,omitempty"`
	Paths []string `json:"paths,omitempty"`
}

type network struct {
	Mode  string `json:"mode,omitempty"`
	Rules []rule `json:"rules,omitempty"`
}

type part struct {
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size,omitempty"`
}

type widgetStatus struct {
	Phase              string `json:"phase,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`

	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	out := &widget{}
	if data, err := json.Marshal(w); err != nil || json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

func (w *widget) GetObjectKind() schema.ObjectKind { return &w.TypeMeta }

func gadget() *widget {
	return &widget{
		ObjectMeta: metav1.ObjectMeta{
			Name: "w", Namespace: "ns", UID: "u2", ResourceVersion: "3", Generation: 5, Finalizers: []string{"old"},
		},
		Spec: widgetSpec{
			Size: 3, Color: "red", Parts: []part{{Name: "a", Kind: "x"}, {Name: "b", Kind: "y"}},
			Settings: map[string]string{"k": "v", "l": "w"}, Bare: map[string]string{"k": "v"},
		},
	}
}
