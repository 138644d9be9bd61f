package selectable_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/selectable"
)

type object = map[string]any

func TestValuesEqualTheServers(t *testing.T) {
	for name, c := range map[string]struct {
		resource, field string
		object          object
		value           string
	}{
		"a boolean":              {"pods", "spec.hostNetwork", object{"spec": object{"hostNetwork": true}}, "true"},
		"a boolean that is none": {"pods", "spec.hostNetwork", object{}, "false"},
		"of a Node":              {"nodes", "spec.unschedulable", object{"spec": object{"unschedulable": true}}, "true"},
		"an old name":            {"pods", "spec.host", object{"spec": object{"nodeName": "n"}}, "n"},
		"a field without values": {"pods", "status.podIPs", object{"status": object{"podIPs": []any{}}}, ""},
		"a number": {
			"replicationcontrollers", "status.replicas", object{"status": object{"replicas": int64(3)}}, "3",
		},
		"a number under another name": {
			"jobs.batch", "status.successful", object{"status": object{"succeeded": int64(2)}}, "2",
		},
		"a number that is none": {"jobs.batch", "status.successful", object{"status": object{}}, "0"},
		"the first of two": {
			"events", "source", object{"source": object{"component": "a"}, "reportingComponent": "b"}, "a",
		},
		"the second of two":     {"events", "source", object{"source": object{}, "reportingComponent": "b"}, "b"},
		"a string":              {"secrets", "type", object{"type": "Opaque"}, "Opaque"},
		"a custom kind":         {"widgets.example.com", "spec.size", object{"spec": object{"size": int64(1)}}, "1"},
		"none of a custom kind": {"widgets.example.com", "spec.size", object{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			rule, known := selectable.RuleFor(schema.ParseGroupResource(c.resource), c.field)
			g.Expect(known).To(BeTrue())
			value, _, known := rule.Value(c.object)
			g.Expect(known).To(BeTrue())
			g.Expect(value).To(Equal(c.value))
		})
	}
}

func TestFieldsOutsideTheTableAreUnknown(t *testing.T) {
	g := NewWithT(t)
	for resource, field := range map[string]string{
		"pods": "spec.priority", "configmaps": "data.x", "leases.coordination.k8s.io": "spec.holderIdentity",
		"": "spec.nodeName", "widgets.example.com": "spec.list[0]",
	} {
		_, known := selectable.RuleFor(schema.ParseGroupResource(resource), field)
		g.Expect(known).To(BeFalse(), "%s %s", resource, field)
	}
	rule, _ := selectable.RuleFor(schema.ParseGroupResource("widgets.example.com"), "spec.x")
	for _, value := range []any{[]any{"a"}, object{"a": "b"}, 1.5} {
		_, _, known := rule.Value(object{"spec": object{"x": value}})
		g.Expect(known).To(BeFalse(), "%v", value)
	}
	_, _, known := rule.Value(object{"spec": "text"})
	g.Expect(known).To(BeFalse())
}
