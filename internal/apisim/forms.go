package apisim

import (
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forms caches the results of a conversion by their input. The runs of one
// exploration write the same objects many times, and the conversion through the
// Go type takes longer than the rest of a write.
type forms struct {
	mu      sync.Mutex // guards results
	results map[form]object
}

// form identifies the input of a conversion.
type form struct {
	kind    schema.GroupVersionKind
	encoded string
}

// maxForms limits the size of the cache.
const maxForms = 500

var remembered = forms{results: map[form]object{}}

// lookup returns the result of shape for an object, from the cache if possible.
// The caller may modify the result.
func (f *forms) lookup(r *Resource, obj object, shape func(*Resource, object) (object, error)) (object, error) {
	obj, identity := withoutIdentity(obj)
	obj, times := withoutTimes(r, obj)
	encoded, err := encode(obj)
	if err != nil {
		return nil, err
	}
	key := form{kind: r.gvk(), encoded: string(encoded)}
	f.mu.Lock()
	result := f.results[key]
	f.mu.Unlock()
	if result == nil {
		if result, err = shape(r, obj); err != nil {
			return nil, err
		}
		f.mu.Lock()
		if len(f.results) >= maxForms {
			clear(f.results)
		}
		f.results[key] = result
		f.mu.Unlock()
	}
	result = clone(result)
	maps.Copy(metaOf(result), identity)
	if len(times) > 0 {
		maps.Copy(result["spec"].(object), times)
	}
	return result, nil
}

// withoutTimes splits a Lease in two: the times of its spec that its Go type
// encodes unchanged, and the rest. The holder of a Lease writes it every few
// seconds, and only these times differ. It returns any other object as it is.
func withoutTimes(r *Resource, obj object) (rest, times object) {
	spec, ok := obj["spec"].(object)
	if !ok || r.gvk() != coordinationv1.SchemeGroupVersion.WithKind("Lease") {
		return obj, nil
	}
	times = object{}
	for _, field := range []string{"acquireTime", "renewTime"} {
		value := text(spec, field)
		t, err := time.Parse(metav1.RFC3339Micro, value)
		if err == nil && !t.IsZero() && t.UTC().Format(metav1.RFC3339Micro) == value {
			times[field] = value
		}
	}
	rest, spec = maps.Clone(obj), maps.Clone(spec)
	maps.DeleteFunc(spec, func(field string, _ any) bool { return times[field] != nil })
	rest["spec"] = spec
	return rest, times
}

// withoutIdentity splits an object in two. identity has the fields of the
// metadata that identify the object. The Go type encodes them unchanged. rest
// has all other fields, which determine the converted form.
func withoutIdentity(obj object) (rest, identity object) {
	rest, identity = maps.Clone(obj), object{}
	m := maps.Clone(metaOf(obj))
	for _, field := range []string{"uid", "resourceVersion"} {
		if text(m, field) != "" {
			identity[field] = m[field]
		}
	}
	if n, ok := m["generation"].(int64); ok && n != 0 {
		identity["generation"] = n
	}
	created := text(m, "creationTimestamp")
	if t, err := time.Parse(time.RFC3339, created); err == nil && !t.IsZero() && t.UTC().Format(time.RFC3339) == created {
		identity["creationTimestamp"] = created
	}
	maps.DeleteFunc(m, func(field string, _ any) bool { return identity[field] != nil })
	rest["metadata"] = m
	return rest, identity
}
