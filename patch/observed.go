package patch

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/clients"
)

// observeGeneration sets the observed generation in the status of obj and in
// the conditions that the edit has set. If the status is a nil pointer to a
// struct with an observed generation, it allocates the status.
func observeGeneration(cached, obj informer.Object) {
	generation := obj.GetGeneration()
	if generation == 0 {
		return
	}
	fillStatus(obj)
	s := statusOf(obj)
	if !s.IsValid() {
		return
	}
	if f, ok := clients.FieldOf(s, "ObservedGeneration"); ok {
		setInt(f, generation)
	}
	oldConditions := conditionsOf(statusOf(cached))
	conditions := conditionsOf(s)
	for i := range conditions {
		condition := &conditions[i]
		if condition.ObservedGeneration == 0 &&
			!sameCondition(meta.FindStatusCondition(oldConditions, condition.Type), condition) {
			condition.ObservedGeneration = generation
		}
	}
}

// setInt sets an integer, or a pointer to an integer, to n. It does not change
// a field of another type, or of an integer type that is too small for n.
func setInt(f reflect.Value, n int64) {
	switch {
	case !f.CanSet():
	case f.Kind() == reflect.Pointer:
		fresh := reflect.New(f.Type().Elem())
		setInt(fresh.Elem(), n)
		if !fresh.Elem().IsZero() {
			f.Set(fresh)
		}
	case f.CanInt() && !f.OverflowInt(n):
		f.SetInt(n)
	case f.CanUint() && n > 0 && !f.OverflowUint(uint64(n)):
		f.SetUint(uint64(n))
	}
}

// fillStatus allocates the status of an object if it is a nil pointer to a
// struct with an observed generation.
func fillStatus(obj informer.Object) {
	s, ok := clients.FieldOf(reflect.ValueOf(obj).Elem(), "Status")
	if !ok || s.Kind() != reflect.Pointer || !s.IsNil() || !s.CanSet() || s.Type().Elem().Kind() != reflect.Struct {
		return
	}
	if _, ok := s.Type().Elem().FieldByName("ObservedGeneration"); ok {
		s.Set(reflect.New(s.Type().Elem()))
	}
}

// statusOf returns the field Status of an object that is a pointer to a struct.
// The result is not valid if there is no such field, or if it is neither a
// struct nor a pointer to one.
func statusOf(obj informer.Object) reflect.Value {
	s, _ := clients.FieldOf(reflect.ValueOf(obj).Elem(), "Status")
	if s = reflect.Indirect(s); s.Kind() == reflect.Struct {
		return s
	}
	return reflect.Value{}
}

// conditionsOf returns the conditions in a status. They are not copied.
func conditionsOf(status reflect.Value) []metav1.Condition {
	if !status.IsValid() {
		return nil
	}
	f, ok := clients.FieldOf(status, "Conditions")
	if !ok {
		return nil
	}
	conditions, _ := reflect.TypeAssert[[]metav1.Condition](f)
	return conditions
}

// sameCondition reports whether an edit has left a condition as it was.
func sameCondition(old, edited *metav1.Condition) bool {
	if old == nil || !old.LastTransitionTime.Equal(&edited.LastTransitionTime) {
		return false
	}
	copied := *old
	copied.LastTransitionTime = edited.LastTransitionTime
	return copied == *edited
}
