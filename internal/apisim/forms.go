package apisim

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forms caches the results of shape by their input: the runs of one exploration write the same objects again and
// again, and the conversion through the Go type takes longer than the rest of a write.
type forms struct {
	mu    sync.Mutex // guards known
	known map[form]object
}

// form determines a shape.
type form struct {
	kind    schema.GroupVersionKind
	encoded string
}

// mostForms bounds the cache.
const mostForms = 500

var remembered = forms{known: map[form]object{}}

// of returns the result of shape for an object. The caller owns it.
func (f *forms) of(r *Resource, obj object, shape func(*Resource, object) (object, error)) (object, error) {
	obj, passed := withoutIdentity(obj)
	encoded, err := encode(obj)
	if err != nil {
		return nil, err
	}
	key := form{kind: r.gvk(), encoded: string(encoded)}
	f.mu.Lock()
	made := f.known[key]
	f.mu.Unlock()
	if made == nil {
		if made, err = shape(r, obj); err != nil {
			return nil, err
		}
		f.mu.Lock()
		if len(f.known) >= mostForms {
			clear(f.known)
		}
		f.known[key] = made
		f.mu.Unlock()
	}
	made = clone(made)
	maps.Copy(metaOf(made), passed)
	return made, nil
}

// withoutIdentity returns an object without the fields of its metadata that tell it from others of the same shape, and
// those fields: values that come back from the Go type as they are.
func withoutIdentity(obj object) (without, passed object) {
	without, passed = maps.Clone(obj), object{}
	m := maps.Clone(metaOf(obj))
	for _, field := range []string{"uid", "resourceVersion"} {
		if text(m, field) != "" {
			passed[field] = m[field]
		}
	}
	if n, is := m["generation"].(int64); is && n != 0 {
		passed["generation"] = n
	}
	at := text(m, "creationTimestamp")
	if t, err := time.Parse(time.RFC3339, at); err == nil && !t.IsZero() && t.UTC().Format(time.RFC3339) == at {
		passed["creationTimestamp"] = at
	}
	maps.DeleteFunc(m, func(field string, _ any) bool { return passed[field] != nil })
	without["metadata"] = m
	return without, passed
}
