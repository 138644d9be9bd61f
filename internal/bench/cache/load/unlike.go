package load

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Unlike returns Pod n with no text that a Pod of another Deployment has: the
// worst there is for sharing. Numbers and quantities are those of Pod.
func Unlike(n int) *corev1.Pod {
	p := Pod(n)
	mark(reflect.ValueOf(p).Elem(), fmt.Sprint("-", n/Replicas))
	return p
}

// mark appends to every text within v.
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
		if raw, ok := reflect.TypeAssert[[]byte](v); ok && len(raw) > 0 {
			v.SetBytes(append(raw, by...))
			return
		}
		for n := range v.Len() {
			mark(v.Index(n), by)
		}
	case reflect.Map:
		if m, ok := reflect.TypeAssert[map[string]string](v); ok && len(m) > 0 {
			marked := make(map[string]string, len(m))
			for key, value := range m {
				marked[key+by] = value + by
			}
			v.Set(reflect.ValueOf(marked))
		}
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() && v.Type().PkgPath() != "k8s.io/apimachinery/pkg/api/resource" {
				mark(v.Field(n), by)
			}
		}
	}
}
