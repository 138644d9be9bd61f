package apisim

// Freeze makes a client read from a server whose cache has fallen behind, until
// [Server.Thaw]. A list, a get or a new watch that accepts any version
// (resourceVersion 0) sees the state of the given version. So does a list that
// accepts any state since an earlier version. If a list or a get asks for a
// later version, it gets the error of a resourceVersion that is too large.
// Writes, and reads that ask for the newest state, bypass the cache and are not
// affected. The scheduler still delivers events.
//
// If the history of a resource is compacted up to a later version, reads of
// that resource see the state of that later version.
func (s *store) Freeze(client string, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen[client] = version
}

// Thaw ends [Server.Freeze].
func (s *store) Thaw(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.frozen, client)
}

// cached returns the version that the client's reads from the cache show. The
// lock must be held.
func (s *store) cached(t *table, client string) int64 {
	if version, ok := s.frozen[client]; ok {
		return min(max(version, t.compacted), s.version)
	}
	return s.version
}
