package reconcile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/queue"
)

// A feed makes additions of the events of one informer. What all of them have in
// common is found out once. Its calls must not overlap.
type feed[O informer.Object] struct {
	in      *informer.Informer[O]
	name    string // of the informer; "" until its kind is known
	compare []int  // see comparedFields
}

func feedOf[O informer.Object](in *informer.Informer[O]) *feed[O] {
	return &feed[O]{in: in, compare: comparedFields(reflect.TypeFor[O]())}
}

// addition says how an event enters the queue: what the first list brought
// waits behind what is happening now, and only a change that may cure a failure
// ends its back-off.
func (f *feed[O]) addition(e informer.Event[O]) queue.AddOptions {
	name := f.name
	if name == "" {
		if name = f.in.Name(); f.in.Kind() != "" {
			f.name = name
		}
	}
	addition := queue.AddOptions{Lane: queue.Live, Cause: causeOf(name, e), ResetBackoff: f.mayCure(e)}
	if e.Initial {
		addition.Lane = queue.Background
	}
	return addition
}

func causeOf[O informer.Object](trigger string, e informer.Event[O]) queue.Cause {
	cause := queue.Cause{Trigger: trigger, Type: e.Type.String()}
	if e.Type != informer.Added {
		cause.Namespace, cause.Name = e.Old.GetNamespace(), e.Old.GetName()
		cause.OldVersion = e.Old.GetResourceVersion()
	}
	if e.Type != informer.Deleted {
		cause.Namespace, cause.Name = e.New.GetNamespace(), e.New.GetName()
		cause.NewVersion = e.New.GetResourceVersion()
	}
	return cause
}

// objectsOf returns the object before and after the event, as far as there is
// one.
func objectsOf[O informer.Object](e informer.Event[O]) []O {
	switch e.Type {
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
func (f *feed[O]) mayCure(e informer.Event[O]) bool {
	if e.Initial {
		return false
	}
	if e.Type != informer.Updated {
		return true
	}
	before, after := e.Old, e.New
	switch {
	case before.GetUID() != after.GetUID(),
		before.GetGeneration() != after.GetGeneration(),
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil),
		!equalMaps(before.GetLabels(), after.GetLabels()),
		!equalMaps(before.GetAnnotations(), after.GetAnnotations()):
		return true
	case after.GetGeneration() != 0:
		return false
	default:
		return !onlyStatusDiffers(before, after, f.compare)
	}
}

// equalMaps is maps.Equal, at once where both are one map: what an update has not
// changed, the cache shares with the state before.
func equalMaps(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

// comparedFields returns the fields of a kind of which a change may cure: all but
// metadata and status. They matter for kinds without a generation, such as Node
// and Service. A kind without a status has nothing that could be ignored: nil.
func comparedFields(t reflect.Type) (fields []int) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil
	}
	if _, ok := t.Elem().FieldByName("Status"); !ok {
		return nil
	}
	fields = []int{}
	for f := range t.Elem().Fields() {
		switch f.Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			fields = append(fields, f.Index[0])
		}
	}
	return fields
}

func onlyStatusDiffers(before, after any, compare []int) bool {
	if compare == nil {
		return false
	}
	a, b := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	return !slices.ContainsFunc(compare, func(i int) bool {
		x, y := a.Field(i).Addr().Interface(), b.Field(i).Addr().Interface()
		return !intern.Alike(x, y)
	})
}

// describe renders causes for a log line, such as
// "nodes: updated /node-1 41→57; pods: deleted d/a 12→ (3 merged)".
func describe(causes []queue.Cause) string {
	var b strings.Builder
	for i, c := range causes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s %s/%s", c.Trigger, c.Type, c.Namespace, c.Name)
		if c.OldVersion != "" || c.NewVersion != "" {
			fmt.Fprintf(&b, " %s→%s", c.OldVersion, c.NewVersion)
		}
		if c.Merged > 0 {
			fmt.Fprintf(&b, " (%d merged)", c.Merged)
		}
	}
	return b.String()
}
