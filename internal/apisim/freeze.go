package apisim

// Freeze makes a client read from a server whose cache has fallen behind, until [Server.Thaw]: a list, a get or a new
// watch that takes any version (resourceVersion 0) sees the state of that version. Reads that ask for the newest state,
// and writes, are not touched, as they go past the cache; events still come, as the scheduler delivers them.
//
// A compacted history bounds how far back it goes.
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

// cached is the version that the client's reads from the cache show. The lock is held.
func (s *store) cached(t *table, client string) int64 {
	if version, ok := s.frozen[client]; ok {
		return min(max(version, t.compacted), s.version)
	}
	return s.version
}
