// Package sample has mutants that its test kills, that it lets live, and one that no test can kill.
package sample

// Clamp returns n, or the nearer limit.
func Clamp(n, low, high int) int {
	if n < low {
		return low
	}
	return min(n, high)
}

// Tally counts names.
type Tally struct {
	Total int
	Last  string
}

// Add counts a name.
func (t *Tally) Add(name string) {
	t.Total++
	t.Last = name
}

// Wait counts down.
func Wait(n int) {
	for n > 0 {
		n--
	}
}
