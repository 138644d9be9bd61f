package apisim

// Freeze makes a client read from a server whose cache has fallen behind, until
// [Server.Thaw]. A list, a get or a new watch that accepts any version
// (resourceVersion 0) sees the state of the given version. Writes, and reads
// that ask for the newest state, bypass the cache and are not affected. The
// scheduler still delivers events.
//
// The version cannot be older than the compacted history.
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
