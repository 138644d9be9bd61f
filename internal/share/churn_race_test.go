//go:build race

package share_test

// churned objects: with the race detector, a million take minutes.
const churned = 100_000
