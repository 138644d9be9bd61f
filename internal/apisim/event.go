package apisim

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is one committed write.
type Event struct {
	Type     watch.EventType // Added, Modified or Deleted
	Resource schema.GroupVersionResource
	Key      types.NamespacedName
	Version  int64
	// Call is the call that made the write. Its Client is "" for [Server.Load].
	Call Call
	// Body is the body of the call before the server filled in any fields. It
	// is JSON, or the YAML of an apply. It is shared; do not modify it.
	Body []byte
	// Old and New are the object before and after the write. Old is nil for a
	// new object and New for a deleted one. They are shared; do not modify
	// them.
	Old, New *unstructured.Unstructured
}

// entry is one commit in the history of a resource.
type entry struct {
	version  int64
	old, new *stored // old is nil for a new object, and new is nil for a deleted one
}

func (s *store) commit(t *table, r *request, old, fresh *stored) {
	e := &entry{version: s.version, old: old, new: fresh}
	t.apply(e, s.opts.History)
	for _, w := range s.watches {
		if w.table == t {
			w.offer(e)
		}
	}
	if len(s.hooks.funcs) > 0 {
		s.hooks.unheard = append(s.hooks.unheard, e.event(t, r))
	}
	s.kick()
}

func (e *entry) event(t *table, r *request) Event {
	ev := Event{Resource: t.res.GVR(), Version: e.version, Call: r.Call, Body: r.body}
	switch {
	case e.old == nil:
		ev.Type, ev.Key = watch.Added, e.new.key
	case e.new == nil:
		ev.Type, ev.Key = watch.Deleted, e.old.key
	default:
		ev.Type, ev.Key = watch.Modified, e.new.key
	}
	if e.old != nil {
		ev.Old = &unstructured.Unstructured{Object: e.old.obj}
	}
	if e.new != nil {
		ev.New = &unstructured.Unstructured{Object: e.new.obj}
	}
	return ev
}

// hooks holds the functions given to OnCommit.
type hooks struct {
	funcs   []func(Event)
	unheard []Event // commits for which the functions were not called yet
	running bool    // a goroutine is calling the functions
}

// runHooks calls the hooks for the committed events, without the lock. If
// another goroutine is already calling them, that goroutine also calls them for
// these events, because hooks must see commits in order.
func (s *store) runHooks() {
	s.mu.Lock()
	if s.hooks.running {
		s.mu.Unlock()
		return
	}
	s.hooks.running = true
	for len(s.hooks.unheard) > 0 {
		e := s.hooks.unheard[0]
		s.hooks.unheard = s.hooks.unheard[1:]
		funcs := s.hooks.funcs
		s.mu.Unlock()
		for _, h := range funcs {
			h(e)
		}
		s.mu.Lock()
	}
	s.hooks.running = false
	s.mu.Unlock()
}
