package protocol

import "fmt"

// A FaultError is an annotation that cannot be read.
type FaultError struct {
	// Node and Key say where it is.
	Node, Key string
	// Problem is what is wrong with the value.
	Problem string
	// Remedy is how to fix it.
	Remedy string
}

func (f *FaultError) Error() string {
	return fmt.Sprintf("reading annotation %s of node %q: %s: %s", f.Key, f.Node, f.Problem, f.Remedy)
}
