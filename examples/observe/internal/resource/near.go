package resource

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxNear     = 3 // suggestions
	maxDistance = 2 // of a suggestion, in edits
	minLength   = 4 // of a name for which there are any: two edits make anything of less
)

// near returns the plural names that look most like name, the nearest first.
func near(name string, all []candidate) []string {
	if len(name) < minLength {
		return nil
	}
	distances := map[string]int{}
	for _, c := range all {
		d := min(distance(name, c.Name), distance(name, strings.ToLower(c.SingularName)))
		if known, ok := distances[c.Name]; d <= maxDistance && (!ok || d < known) {
			distances[c.Name] = d
		}
	}
	names := make([]string, 0, len(distances))
	for n := range distances {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return names[:min(len(names), maxNear)]
}

// distance is the number of insertions, deletions and replacements of bytes
// that make b of a (Levenshtein).
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
