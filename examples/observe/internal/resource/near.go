package resource

import (
	"slices"
	"strings"
)

const (
	maxNear     = 3 // number of suggestions
	maxDistance = 2 // largest distance of a suggestion, in edits
	minLength   = 4 // the minimum length of a name: two edits turn shorter names into unrelated ones
)

// similar returns the plural names that are most similar to name, at most
// maxNear of them. It returns none if name is shorter than minLength, or if no
// name is within maxDistance edits.
func similar(name string, candidates []candidate) []string {
	if len(name) < minLength {
		return nil
	}
	var names []string
	limit := maxDistance
	for _, c := range candidates {
		d := min(distance(name, c.Name), distance(name, strings.ToLower(c.SingularName)))
		if d < limit {
			names, limit = nil, d
		}
		if d == limit {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNear)]
}

// distance returns the number of insertions, deletions and replacements of
// bytes that turn a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
