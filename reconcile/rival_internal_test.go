package reconcile

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// entry is what a server notes of a manager, at a second.
func entry(manager string, second int64, subresource, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: time.Unix(second, 0)}, Subresource: subresource}
	if fields != "" {
		e.FieldsV1 = metav1.NewFieldsV1(fields)
	}
	return e
}

func TestTheRivalIsTheOtherManagerThatWroteTheFieldLast(t *testing.T) {
	object := written("1", "")
	object.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("first", 1, "", `{"f:spec":{"f:replicas":{}}}`),
		entry("autoscaler", 3, "", `{"f:spec":{"f:replicas":{},"f:selector":{}}}`),
		entry("us", 9, "", `{"f:spec":{"f:replicas":{}},"f:data":{"f:ours":{}}}`),
		entry("second", 2, "", `{"f:spec":{"f:replicas":{}}}`),
		entry("status", 8, "status", `{"f:status":{"f:phase":{}}}`),
		entry("labels", 4, "", `{"f:metadata":{"f:labels":{".":{},"f:example.com/team":{}}}}`),
		entry("lists", 5, "", `{"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{}}}}}`),
		entry("scaler", 6, "scale", `{"f:spec":{"f:replicasMax":{}}}`),
	}
	for path, rival := range map[string]string{
		"spec.replicas":                    "autoscaler",
		"status.phase":                     "status",
		"metadata.labels.example.com/team": "labels",
		"metadata.labels.example":          "",
		"spec.ports":                       "lists",
		"spec.selector.matchLabels.a":      "autoscaler", // as a whole
		"spec.replica":                     "",
		"data.ours":                        "",
		"scale":                            "scaler",
		wholeObject:                        "lists",
		wholeBody:                          "lists",
	} {
		NewWithT(t).Expect(rivalOf(object, "us", []string{"data.a", path})).To(Equal(rival), path)
	}
}

// Fakes do not say who wrote which field.
func TestAManagerWithoutFieldsMayBeTheRival(t *testing.T) {
	g := NewWithT(t)
	object := written("1", "")
	object.ManagedFields = []metav1.ManagedFieldsEntry{entry("a", 1, "", ""), entry("b", 3, "", ""), entry("us", 4, "", "")}
	g.Expect(rivalOf(object, "us", []string{"spec"})).To(Equal("b"))
	object.ManagedFields = object.ManagedFields[2:]
	g.Expect(rivalOf(object, "us", []string{"spec"})).To(BeEmpty())
	g.Expect(rivalOf(nil, "us", nil)).To(BeEmpty())
}
