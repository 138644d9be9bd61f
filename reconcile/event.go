package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/queue"
)

// additionOf says how an event enters the queue: what the first list brought
// waits behind what is happening now, and only a change that may cure a failure
// ends its back-off.
func additionOf[O informer.Object](trigger string, e informer.Event[O]) queue.Addition {
	addition := queue.Addition{Lane: queue.Live, Cause: causeOf(trigger, e), Reset: mayCure(e)}
	if e.Initial {
		addition.Lane = queue.Background
	}
	return addition
}

func causeOf[O informer.Object](trigger string, e informer.Event[O]) queue.Cause {
	cause := queue.Cause{Trigger: trigger}
	switch e.Kind {
	case informer.Added:
		cause.Change = queue.Added
	case informer.Updated:
		cause.Change = queue.Updated
	case informer.Deleted:
		cause.Change = queue.Deleted
	}
	if e.Kind != informer.Added {
		cause.Namespace, cause.Name = e.Old.GetNamespace(), e.Old.GetName()
		cause.OldVersion = e.Old.GetResourceVersion()
	}
	if e.Kind != informer.Deleted {
		cause.Namespace, cause.Name = e.New.GetNamespace(), e.New.GetName()
		cause.NewVersion = e.New.GetResourceVersion()
	}
	return cause
}

// objectsOf returns the object before and after the event, as far as there is
// one.
func objectsOf[O informer.Object](e informer.Event[O]) []O {
	switch e.Kind {
	case informer.Added:
		return []O{e.New}
	case informer.Deleted:
		return []O{e.Old}
	default:
		return []O{e.Old, e.New}
	}
}

// mayCure tells whether the event changes something that a failed turn may
// have depended on. Status alone does not: a controller that reports its
// failure there would wake itself.
func mayCure[O informer.Object](e informer.Event[O]) bool {
	if e.Initial {
		return false
	}
	if e.Kind != informer.Updated {
		return true
	}
	before, after := e.Old, e.New
	switch {
	case before.GetUID() != after.GetUID(),
		before.GetGeneration() != after.GetGeneration(),
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil),
		!maps.Equal(before.GetLabels(), after.GetLabels()),
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()):
		return true
	case after.GetGeneration() != 0:
		return false
	default:
		return !onlyStatusDiffers(before, after)
	}
}

// onlyStatusDiffers compares two objects of a kind without generation (Node,
// Service): all fields but metadata and status. A kind without a status has
// nothing that could be ignored.
func onlyStatusDiffers(before, after any) bool {
	a, b := reflect.Indirect(reflect.ValueOf(before)), reflect.Indirect(reflect.ValueOf(after))
	if a.Kind() != reflect.Struct || !a.FieldByName("Status").IsValid() {
		return false
	}
	for i := range a.NumField() {
		switch a.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				return false
			}
		}
	}
	return true
}

// describe renders causes for a log line, such as
// "nodes: updated /node-1 41→57; pods: deleted d/a 12→ (3 merged)".
func describe(causes []queue.Cause) string {
	var b strings.Builder
	for i, c := range causes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s %s/%s", c.Trigger, c.Change, c.Namespace, c.Name)
		if c.OldVersion != "" || c.NewVersion != "" {
			fmt.Fprintf(&b, " %s→%s", c.OldVersion, c.NewVersion)
		}
		if c.Merged > 0 {
			fmt.Fprintf(&b, " (%d merged)", c.Merged)
		}
	}
	return b.String()
}
