package diff_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/diff"
)

// anyJSON stores JSON as apiextensionsv1.JSON does.
type anyJSON struct {
	Raw []byte `json:"-"`
}

func (j anyJSON) MarshalJSON() ([]byte, error) { return j.Raw, nil }

func (j *anyJSON) UnmarshalJSON(data []byte) error {
	j.Raw = append([]byte{}, data...)
	return nil
}

// nilable writes a null that stands for nothing.
type nilable struct{ A *int }

func (n nilable) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any{"a": n.A, "b": 1}) }

type rawHolder struct {
	Extension *runtime.RawExtension `json:"extension,omitempty"`
	Any       anyJSON               `json:"any,omitzero"`
	Message   json.RawMessage       `json:"message,omitempty"`
	Nested    map[string][]anyJSON  `json:"nested,omitempty"`
	Other     *nilable              `json:"other,omitempty"`
}

func TestANullInRawJSONIsAnOperation(t *testing.T) {
	old, edited := []byte(`{"a":1}`), []byte(`{"a":null}`)
	for name, c := range map[string]struct{ original, edited rawHolder }{
		"RawExtension": {
			rawHolder{Extension: &runtime.RawExtension{Raw: old}}, rawHolder{Extension: &runtime.RawExtension{Raw: edited}},
		},
		"JSON":          {rawHolder{Any: anyJSON{old}}, rawHolder{Any: anyJSON{edited}}},
		"RawMessage":    {rawHolder{Message: old}, rawHolder{Message: edited}},
		"a new value":   {rawHolder{}, rawHolder{Message: edited}},
		"a new element": {rawHolder{}, rawHolder{Nested: map[string][]anyJSON{"x": {{edited}}}}},
	} {
		g := NewWithT(t)
		p, err := diff.Make(&c.original, &c.edited, diff.JSON)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(p.Style).To(Equal(diff.Operations), name)
		g.Expect(string(p.Data)).To(Or(ContainSubstring(`/a","value":null}`), ContainSubstring(`{"a":null}`)), name)
	}
}

func TestANullThatChangesNothingIsNotStored(t *testing.T) {
	g := NewWithT(t)
	p, err := diff.Make(&rawHolder{}, &rawHolder{Other: &nilable{}}, diff.JSON)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Style).To(Equal(diff.JSON), "a merge, in which the null removes nothing")
	original, edited := rawHolder{Message: []byte(`{"a":null,"b":1}`)}, rawHolder{Message: []byte(`{"a":null,"b":2}`)}
	p, err = diff.Make(&original, &edited, diff.JSON)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(p.Data)).To(Equal(`{"message":{"b":2}}`), "the null was there before")
}
