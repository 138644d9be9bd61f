package intern_test

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/intern"
)

func TestAlikeIsDeep(t *testing.T) {
	a, b := replica(1), replica(1)
	if !intern.Alike(a, b) {
		t.Error("equal Pods are different")
	}
	*b.Spec.Containers[0].VolumeMounts[0].MountPropagation = corev1.MountPropagationBidirectional
	if intern.Alike(a, b) || intern.Alike(a, nil) || intern.Alike(a, &corev1.Node{}) || intern.Alike(nil, nil) {
		t.Error("different objects are equal")
	}
}

// eachKind calls f with an object of every built-in kind with random content.
func eachKind(t *testing.T, f func(gvk schema.GroupVersionKind, object runtime.Object)) {
	t.Helper()
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
	for gvk := range scheme.Scheme.AllKnownTypes() {
		object, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		fill.Fill(object)
		f(gvk, object)
	}
}

// A deep copy is alike. After any one value in it has changed, it is no longer
// alike, unless the value is lazy.
func TestAlikeSeesEveryChangeOfEveryKind(t *testing.T) {
	changes := 0
	eachKind(t, func(gvk schema.GroupVersionKind, object runtime.Object) {
		if !intern.Alike(object, object.DeepCopyObject()) {
			return // Alike does not understand one of the object's types
		}
		other := object.DeepCopyObject()
		eachChange(reflect.ValueOf(other).Elem(), func(what string) {
			changes++
			if intern.Alike(object, other) && !reflect.DeepEqual(object, other) {
				t.Errorf("%s: a change of %s is not seen", gvk, what)
			}
		})
		if !intern.Alike(object, other) {
			t.Errorf("%s: changes that were undone are seen", gvk)
		}
	})
	if changes < 20_000 {
		t.Errorf("%d changes: that is too few", changes)
	}
}

// eachChange changes each value within v, one after the other. It calls f after
// each change, and then undoes the change.
func eachChange(v reflect.Value, f func(what string)) {
	change := func(to reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(to)
		f(v.Type().String())
		v.Set(was)
	}
	if when, ok := reflect.TypeAssert[metav1.Time](v); ok {
		change(reflect.ValueOf(metav1.NewTime(when.Add(time.Second))))
		return
	}
	if v.Type() == reflect.TypeFor[resource.Quantity]() { // lazy
		return
	}
	switch v.Kind() {
	case reflect.String:
		change(reflect.ValueOf(v.String() + "x").Convert(v.Type()))
	case reflect.Bool:
		change(reflect.ValueOf(!v.Bool()).Convert(v.Type()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		change(reflect.ValueOf(v.Int() + 1).Convert(v.Type()))
	case reflect.Uint8:
		change(reflect.ValueOf(v.Uint() + 1).Convert(v.Type()))
	case reflect.Pointer:
		if !v.IsNil() {
			change(reflect.Zero(v.Type()))
			eachChange(v.Elem(), f)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			change(v.Slice(0, v.Len()-1))
			change(reflect.Zero(v.Type()))
		}
		for n := range v.Len() {
			eachChange(v.Index(n), f)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			was := v.MapIndex(key)
			v.SetMapIndex(key, reflect.Value{})
			f(v.Type().String())
			value := reflect.New(was.Type()).Elem()
			value.Set(was)
			eachChange(value, func(what string) {
				v.SetMapIndex(key, value)
				f(what)
			})
			v.SetMapIndex(key, was)
		}
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() {
				eachChange(v.Field(n), f)
			}
		}
	}
}
