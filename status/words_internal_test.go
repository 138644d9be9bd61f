package status

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheScopeOfAnInformerIsDescribed(t *testing.T) {
	g := NewWithT(t)
	for words, in := range map[string]informerReport{
		"everything":                       {},
		"namespace a":                      {Namespaces: []string{"a"}},
		"namespaces a, b; labels app=web":  {Namespaces: []string{"a", "b"}, LabelSelector: "app=web"},
		"fields metadata.name=x":           {FieldSelector: "metadata.name=x"},
		"labels app; metadata only":        {LabelSelector: "app", MetadataOnly: true},
		"namespace a; fields spec.node=no": {Namespaces: []string{"a"}, FieldSelector: "spec.node=no"},
	} {
		g.Expect(scope(in)).To(Equal(words))
	}
}

func TestSizesHaveSuitableUnits(t *testing.T) {
	g := NewWithT(t)
	for words, bytes := range map[string]int64{
		"0 B": 0, "1023 B": 1023, "1.0 KiB": 1024, "1.5 MiB": 3 << 19, "2.0 GiB": 2 << 30, "4096.0 GiB": 4 << 40,
	} {
		g.Expect(size(bytes)).To(Equal(words))
	}
}

func TestTheConditionOfAnInformerIsDescribed(t *testing.T) {
	g := NewWithT(t)
	for words, in := range map[string]informerReport{
		"synced":                            {Synced: true},
		"synced; last error: no connection": {Synced: true, LastError: "no connection"},
		"listing":                           {Reason: "listing", LastError: "no connection"},
	} {
		g.Expect(condition(in)).To(Equal(words))
	}
}
