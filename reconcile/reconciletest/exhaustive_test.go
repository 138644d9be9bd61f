//go:build !race

package reconciletest_test

import "testing"

// exhaustive lets the test run: see exhaustive_race_test.go.
func exhaustive(*testing.T) {}
