package apisim

import (
	"maps"
	"sync"
	"time"

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

// lookup returns the result of shape for an object. The caller owns it.
func (f *forms) lookup(r *Resource, obj object, shape func(*Resource, object) (object, error)) (object, error) {
	obj, identity := withoutIdentity(obj)
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
	return result, nil
}

// withoutIdentity splits an object in two. identity has the fields of the
// metadata that identify the object, which the Go type encodes unchanged. rest
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
