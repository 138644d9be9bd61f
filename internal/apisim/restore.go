package apisim

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Restore resets the server to its state at a version, like a restore of etcd
// from a backup and a restart of the API server. All later writes are lost, the
// next write gets the version after it, and all watches break. As with the real
// server, clients that resume a watch from a later version receive no events
// until the server has reached that version again. Hooks are not called.
//
// Restore does not reset the generation of UIDs, because the real server's UIDs
// are random.
//
// It returns an error if the version is in the future, or older than the
// history that the server keeps (see [Options].History and [Server.Compact]).
func (s *store) Restore(version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version > s.version {
		return fmt.Errorf("restoring version %d: the server is only at version %d", version, s.version)
	}
	for _, t := range s.ordered {
		if version < t.compacted {
			return fmt.Errorf("restoring version %d: the history of %s begins at version %d", version, t.name, t.compacted)
		}
	}
	for _, t := range s.ordered {
		t.restore(version)
	}
	s.version = version
	for _, w := range s.watches {
		w.end(nil)
	}
	s.reap()
	s.kick()
	return nil
}

// EndWatches ends all watches of a resource, as a server does when it no longer
// serves the resource.
func (s *store) EndWatches(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.table == s.tables[resource] {
			w.end(nil)
		}
	}
	s.reap()
	s.kick()
}

// restore undoes the events after a version.
func (t *table) restore(version int64) {
	objects := map[types.NamespacedName]*stored{}
	for _, o := range t.objectsAt(version) {
		objects[o.key] = o
	}
	first := slices.IndexFunc(t.history, func(e *entry) bool { return e.version > version })
	if first < 0 {
		return
	}
	lost := t.history[first:]
	t.history = slices.Clone(t.history[:first])
	t.objects, t.sorted = objects, nil
	for _, e := range slices.Backward(lost) {
		switch {
		case e.old == nil: // the object was created
			delete(t.born, e.new.key)
		case e.new == nil: // the age of a deleted object is not recorded, so the restored object counts as new
			if objects[e.old.key] != nil {
				t.born[e.old.key] = e.old.version
			}
		}
	}
}
