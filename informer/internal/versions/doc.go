// Package versions has what an informer knows of resourceVersions: how far its
// watches have come, how new its cache is known to be, and why a list was sent.
package versions

// Occasion is why a list of the watch was sent.
type Occasion uint8

const (
	// FirstList is the first one of an informer that runs.
	FirstList Occasion = iota
	// Relist follows a watch that could not be resumed.
	Relist
	// RestoredList follows a restore of the server's storage. An object of the same
	// resourceVersion may be another one, so all count as changed.
	RestoredList
)
