// Package alone has a test that is red in a program with several mutants.
package alone

// Twice returns 2n.
func Twice(n int) int { return n + n }
