package rules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These are the maximum lengths of an event's texts, in bytes.
const (
	longestNote   = 1024
	longestReason = 128 // also for the action and the reporting instance
)

// event checks an event of the core group. If it has an eventTime, its texts
// must obey the rules of events.k8s.io; see eventTexts. Otherwise it must be
// about an object in its own namespace, or about a cluster-scoped object if it
// is in "default".
func event(obj object) field.ErrorList {
	if obj["eventTime"] != nil {
		return eventTexts(obj, "reportingComponent")
	}
	m, involved := Meta(obj), Object(obj["involvedObject"])
	namespace, involvedNamespace := Text(m, "namespace"), Text(involved, "namespace")
	if involvedNamespace != namespace && (involvedNamespace != "" || namespace != "default") {
		return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), involvedNamespace,
			"does not match event.namespace")}
	}
	return nil
}

// newEvent checks an event of events.k8s.io.
func newEvent(obj object) field.ErrorList {
	errs := required(obj, "eventTime")
	if len(errs) == 0 {
		errs = eventTexts(obj, "reportingController")
	}
	if kind := Text(obj, "type"); kind != "Normal" && kind != "Warning" {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+kind))
	}
	return errs
}

// eventTexts checks the texts of an event that has an eventTime. controller is
// the name of its field for the reporting controller.
func eventTexts(obj object, controller string) field.ErrorList {
	errs := required(obj, "reportingInstance", "action", "reason")
	name := Text(obj, controller)
	if name == "" {
		errs = append(errs, field.Required(field.NewPath(controller), ""))
	}
	for _, fault := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(field.NewPath(controller), name, fault))
	}
	for _, limit := range []struct {
		field, reported string
		limit           int
	}{
		{"reportingInstance", "reportingInstance", longestReason},
		{"action", "action", longestReason},
		{"reason", "reason", longestReason},
		{"note", "message", longestNote},
		{"message", "message", longestNote},
	} {
		if len(Text(obj, limit.field)) > limit.limit {
			errs = append(errs, field.Invalid(field.NewPath(limit.reported), "",
				fmt.Sprintf("can have at most %d characters", limit.limit)))
		}
	}
	return errs
}
