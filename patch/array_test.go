package patch_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/patch"
)

// paired is a widget whose type has room for two elements.
type paired struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              pairedSpec `json:"spec"`
}

type pairedSpec struct {
	Rules   [2]rule    `json:"rules,omitzero"`
	Numbers [2]int     `json:"numbers,omitzero"`
	Hosts   *[2]string `json:"hosts,omitempty"`
	Zones   *[2]string `json:"zones"`
	Names   *[]string  `json:"names,omitempty"`
	Any     any        `json:"any,omitempty"`
}

func (p *paired) GetObjectKind() schema.ObjectKind { return &p.TypeMeta }

func (p *paired) DeepCopyObject() runtime.Object {
	out := &paired{}
	if data, err := json.Marshal(p); err != nil || json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

// encoding/json drops the elements for which an array has no room.
func TestAnElementForWhichAnArrayHasNoRoomSurvives(t *testing.T) {
	w := simulatedWidgets(t)
	version, config := widgetResource.GroupVersion(), rest.CopyConfig(w.config)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Widget"), &paired{})
	metav1.AddToGroupVersion(scheme, version)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	clients := func(namespace string) *gentype.Client[*paired] {
		return gentype.NewClient("widgets", client, runtime.NewParameterCodec(scheme), namespace, func() *paired { return &paired{} })
	}
	for name, c := range map[string]struct {
		is, short string // with and without a third element
		cut, edit func(*paired)
	}{
		"rules": {
			is: `{"rules":[{"host":"a"},{"host":"b"},{"host":"c"}]}`, short: `{"rules":[{"host":"a"},{"host":"b"}]}`,
			edit: func(p *paired) { p.Spec.Rules = [2]rule{} },
		},
		"numbers": {
			is: `{"numbers":[1,2,3]}`, short: `{"numbers":[1,2]}`, edit: func(p *paired) { p.Spec.Numbers = [2]int{} },
		},
		"hosts": {is: `{"hosts":["a","b","c"]}`, short: `{"hosts":["a","b"]}`, edit: func(p *paired) { p.Spec.Hosts = nil }},
		"zones": {is: `{"zones":["a","b","c"]}`, short: `{"zones":["a","b"]}`, edit: func(p *paired) { p.Spec.Zones = nil }},
		"names": {
			is: `{"names":["a","b","c"]}`, short: `{"names":["a","b"]}`, edit: func(p *paired) { p.Spec.Names = nil },
			cut: func(p *paired) { p.Spec.Names = &[]string{"a", "b"} },
		},
		"any": {
			is: `{"any":["a","b","c"]}`, short: `{"any":["a","b"]}`, edit: func(p *paired) { p.Spec.Any = nil },
			cut: func(p *paired) { p.Spec.Any = []any{"a", "b"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, is := range []string{c.is, c.short} {
				g := NewWithT(t)
				id := fmt.Sprint(name, len(is))
				w.store(id, "spec", is)
				cached, err := clients("d").Get(t.Context(), id, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				if c.cut != nil {
					c.cut(cached)
				}
				_, err = patch.Merge(t.Context(), clients, cached, nil, c.edit)
				if is == c.is {
					g.Expect(err).To(MatchError(ContainSubstring("spec."+name)), "%s", w.has(id, "spec"))
					g.Expect(w.has(id, "spec")).To(MatchJSON(is))
				} else {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(w.has(id, "spec")).To(MatchJSON("{}"))
				}
			}
		})
	}
}
