package diff

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// defaults sets a field before it is read.
type defaults struct {
	Mode string `json:"mode,omitempty"`
}

func (d *defaults) UnmarshalJSON(data []byte) error {
	d.Mode = "auto"
	type plain defaults
	return json.Unmarshal(data, (*plain)(d))
}

// strict accepts only one text.
type strict struct {
	Host string `json:"host"`
}

func (s *strict) UnmarshalJSON(data []byte) error {
	if string(data) != `"host:1"` {
		return errors.New("not a host and a port")
	}
	s.Host = "host"
	return nil
}

// whole keeps the JSON that it was read from.
type whole []byte

func (w *whole) UnmarshalJSON(data []byte) error {
	*w = append((*w)[:0], data...)
	return nil
}

func (w whole) MarshalJSON() ([]byte, error) {
	if len(w) == 0 {
		return []byte("null"), nil
	}
	return w, nil
}

// written writes an object, and reads a text, too.
type written struct{ name string }

func (w *written) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &w.name)
	}
	var long struct{ Name string }
	err := json.Unmarshal(data, &long)
	w.name = long.Name
	return err
}

func (w written) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"name": w.name})
}

// panics cannot be read from a list.
type panics struct{ A int }

func (p *panics) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		panic("a list")
	}
	type plain panics
	return json.Unmarshal(data, (*plain)(p))
}

func TestATypeThatReadsAnotherShapeIsKnown(t *testing.T) {
	for of, want := range map[reflect.Type]bool{
		reflect.TypeFor[defaults]():             false,
		reflect.TypeFor[strict]():               true,
		reflect.TypeFor[whole]():                false,
		reflect.TypeFor[written]():              true,
		reflect.TypeFor[panics]():               true,
		reflect.TypeFor[struct{ A int }]():      false,
		reflect.TypeFor[runtime.RawExtension](): false,
		reflect.TypeFor[json.RawMessage]():      false,
	} {
		NewWithT(t).Expect(planOf(of).reshapes).To(Equal(want), "%v", of)
	}
}

func TestNoBuiltInTypeReadsAnotherShape(t *testing.T) {
	g, seen := NewWithT(t), map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		g.Expect(n.reshapes && !isFlat(n.typ)).To(BeFalse(), "%v", n.typ)
		visit(n.elem)
		for _, f := range n.fields {
			visit(f.node)
		}
	}
	for _, of := range scheme.Scheme.AllKnownTypes() {
		visit(planOf(of))
	}
	g.Expect(len(seen)).To(BeNumerically(">", 1000))
}
