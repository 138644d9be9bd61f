//go:build race

package reconciletest_test

import "testing"

// exhaustive skips a test whose time goes into exploring programs to the end:
// what it asserts is asserted without the race detector, and the code that it
// runs is run under it by the tests that remain.
func exhaustive(t *testing.T) {
	t.Helper()
	t.Skip("explored to the end without the race detector")
}
