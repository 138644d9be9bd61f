package turn

// NeverSent is implemented by errors of a transport that say whether the request
// never left. Package cluster does not wait for such a write, and those of a
// fence of package leader implement it.
type NeverSent interface {
	error
	// NeverSent reports whether no byte of the request can have reached the
	// server.
	NeverSent() bool
}
