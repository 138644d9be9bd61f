package apisim

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Restore puts the server back to how it was at a version, as when etcd is restored from a backup and the API server
// is started again: all writes after it are lost, the next write gets the version after it, and all watches break.
// Clients that resume a watch from a later version hear nothing until the server has come there again, as with the
// real server. Hooks are not called.
//
// A UID is not made twice, as those of the real server are random.
//
// Errors: a version to come, or one before the history that the server keeps (see [Options].History and
// [Server.Compact]).
func (s *store) Restore(version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version > s.version {
		return fmt.Errorf("restoring version %d: the server is at version %d", version, s.version)
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

// restore undoes what came after a version.
func (t *table) restore(version int64) {
	objects := map[types.NamespacedName]*stored{}
	for _, o := range t.at(version) {
		objects[o.key] = o
	}
	past := slices.IndexFunc(t.history, func(e *entry) bool { return e.version > version })
	if past < 0 {
		return
	}
	lost := t.history[past:]
	t.history = slices.Clone(t.history[:past])
	t.objects, t.sorted = objects, nil
	for _, e := range slices.Backward(lost) {
		switch {
		case e.old == nil: // it was made
			delete(t.born, e.new.key)
		case e.new == nil: // an object that was there before is younger than it was, for want of a record
			if objects[e.old.key] != nil {
				t.born[e.old.key] = e.old.version
			}
		}
	}
}
