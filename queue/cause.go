package queue

import "fmt"

// MaxCauses bounds the list of causes that a key carries. Causes beyond are
// counted in Merged of the last one.
const MaxCauses = 8

// A Cause is one reason why a key is looked at. It explains (logs, metrics,
// debug pages) and never decides.
type Cause struct {
	// Trigger is the name of what added the key, such as an informer's.
	Trigger string
	// Namespace and Name are of the object that changed, which need not be the
	// key's.
	Namespace, Name string
	// Change is what happened to the object.
	Change Change
	// OldVersion and NewVersion are its resource versions before and after.
	OldVersion, NewVersion string
	// Merged counts the further changes of this object that this cause stands
	// for.
	Merged int
}

func (c *Cause) empty() bool {
	return c.Trigger == "" && c.Name == "" && c.Namespace == "" && c.Change == Unknown &&
		c.OldVersion == "" && c.NewVersion == "" && c.Merged == 0
}

// Change is what happened to the object of a [Cause].
type Change uint8

// The kinds of change. The zero value is an unknown one.
const (
	Unknown Change = iota
	Added
	Updated
	Deleted
	// Resync looks again at what is known.
	Resync
	// Orphan is a name that only an outside system knows.
	Orphan
)

// String returns the kind in lower case.
func (c Change) String() string {
	names := [...]string{"unknown", "added", "updated", "deleted", "resync", "orphan"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("change(%d)", uint8(c))
}
