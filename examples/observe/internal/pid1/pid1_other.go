//go:build !unix

// Package pid1 lets a program be the first process of a container, on systems
// that have such a process.
package pid1

// Main returns false, because these systems have no PID namespaces.
func Main() (code int, isFirst bool, err error) { return 0, false, nil }
