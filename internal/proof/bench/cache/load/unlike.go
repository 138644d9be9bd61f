package load

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Unlike returns a Pod like Pod(n), but all of its texts differ from the texts
// of other Deployments' Pods. It is the worst case for a cache that shares
// equal texts.
func Unlike(n int) *corev1.Pod {
	p := Pod(n)
	mark(reflect.ValueOf(p).Elem(), fmt.Sprint("-", n/Replicas))
	return p
}

// mark appends suffix to every string and byte slice in v that is not empty,
// and to the keys of its maps. It leaves out quantities, and maps whose values
// are not strings.
func mark(v reflect.Value, suffix string) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(v.String() + suffix)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mark(v.Elem(), suffix)
		}
	case reflect.Slice:
		markList(v, suffix)
	case reflect.Map:
		markMap(v, suffix)
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() && v.Type().PkgPath() != "k8s.io/apimachinery/pkg/api/resource" {
				mark(v.Field(n), suffix)
			}
		}
	}
}

func markList(v reflect.Value, suffix string) {
	if raw, ok := reflect.TypeAssert[[]byte](v); ok && len(raw) > 0 {
		v.SetBytes(append(raw, suffix...))
		return
	}
	for n := range v.Len() {
		mark(v.Index(n), suffix)
	}
}

func markMap(v reflect.Value, suffix string) {
	m, ok := reflect.TypeAssert[map[string]string](v)
	if !ok || len(m) == 0 {
		return
	}
	marked := make(map[string]string, len(m))
	for key, value := range m {
		marked[key+suffix] = value + suffix
	}
	v.Set(reflect.ValueOf(marked))
}
