package informer

// Both returns snapshots of two caches that were the newest ones at the same
// moment. Their watches may still be differently far behind the server.
func Both[A, B Object](a *Informer[A], b *Informer[B]) (Snapshot[A], Snapshot[B]) {
	for {
		first, second := a.Snapshot(), b.Snapshot()
		if a.Snapshot() == first { // so it was when second was taken
			return first, second
		}
	}
}
