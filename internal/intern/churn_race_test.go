//go:build race

package intern_test

// churned objects: with the race detector, a million take minutes.
const churned = 100_000
