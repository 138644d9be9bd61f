// Package red has a test that is red without a mutant.
package red

// One returns 1.
func One() int { return 1 }
