package load

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Unlike returns Pod n without texts that Pods of other Deployments have, which
// is the worst case for sharing. Numbers and quantities are as in Pod.
func Unlike(n int) *corev1.Pod {
	p := Pod(n)
	mark(reflect.ValueOf(p).Elem(), fmt.Sprint("-", n/Replicas))
	return p
}

// mark appends by to every text in v.
func mark(v reflect.Value, by string) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(v.String() + by)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mark(v.Elem(), by)
		}
	case reflect.Slice:
		markList(v, by)
	case reflect.Map:
		markMap(v, by)
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() && v.Type().PkgPath() != "k8s.io/apimachinery/pkg/api/resource" {
				mark(v.Field(n), by)
			}
		}
	}
}

func markList(v reflect.Value, by string) {
	if raw, ok := reflect.TypeAssert[[]byte](v); ok && len(raw) > 0 {
		v.SetBytes(append(raw, by...))
		return
	}
	for n := range v.Len() {
		mark(v.Index(n), by)
	}
}

func markMap(v reflect.Value, by string) {
	m, ok := reflect.TypeAssert[map[string]string](v)
	if !ok || len(m) == 0 {
		return
	}
	marked := make(map[string]string, len(m))
	for key, value := range m {
		marked[key+by] = value + by
	}
	v.Set(reflect.ValueOf(marked))
}
