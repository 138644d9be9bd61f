// Package versions records what an informer knows about resourceVersions: the
// ones that its watches have reached, how new its cache is known to be, and why
// a list was sent.
package versions

// Occasion is the reason why an informer has listed its objects.
type Occasion uint8

const (
	// FirstList is the first list of a watch after the informer was started.
	FirstList Occasion = iota
	// Relist is each other list without a restore. For example, it follows a
	// watch that could not be resumed, or fills shards that were added.
	Relist
	// RestoredList follows a restore of the server's storage, unless it is the
	// first list. All objects count as changed, because the same
	// resourceVersion may now belong to a different state.
	RestoredList
)
