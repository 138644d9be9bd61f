package protocol

import "fmt"

// A FaultError describes an annotation that cannot be parsed.
type FaultError struct {
	// Node is the name of the node, and Key is the key of the annotation.
	Node, Key string
	// Problem describes the mistake in the value.
	Problem string
	// Remedy describes how to fix it.
	Remedy string
}

func (f *FaultError) Error() string {
	return fmt.Sprintf("reading annotation %s of node %q: %s: %s", f.Key, f.Node, f.Problem, f.Remedy)
}
