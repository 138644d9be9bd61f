//go:build !unix

// Package pid1 lets a program be the first process of a container: only where
// there is such a thing.
package pid1

// Main does nothing: there is no first process.
func Main() (code int, first bool, err error) { return 0, false, nil }
