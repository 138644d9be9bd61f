//go:build !race

package intern_test

// churned is how many objects come and go.
const churned = 1_000_000
