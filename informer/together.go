package informer

// Together calls take, which takes snapshots of caches, until none of the caches
// has changed meanwhile: then the snapshots were the newest ones at the same
// moment.
//
//	informer.Together(func() { n, p = nodes.Snapshot(), pods.Snapshot() }, nodes, pods)
//
// It allocates nothing. The watches of the caches may still be differently far
// behind the server.
func Together(take func(), caches ...interface{ newestState() any }) {
	var space [4]any
	for {
		before := space[:0]
		for _, c := range caches {
			before = append(before, c.newestState())
		}
		take()
		same := true
		for n, c := range caches {
			same = same && c.newestState() == before[n]
		}
		if same {
			return
		}
	}
}

// newestState is another one after every change.
func (i *Informer[T]) newestState() any { return i.state() }
