package command

import (
	"os"
	"slices"
	"strings"
)

// always are the variables that every program gets.
var always = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// Environment returns the environment of programs: all of this process's if
// there are no declarations, and otherwise PATH, HOME, LANG, TZ, TMPDIR and
// those declared: NAME, which passes one on, or NAME=VALUE.
func Environment(declared []string) []string {
	if len(declared) == 0 {
		return os.Environ()
	}
	var all []string
	for _, variable := range append(slices.Clip(always), declared...) {
		if strings.Contains(variable, "=") {
			all = append(all, variable)
		} else if value, ok := os.LookupEnv(variable); ok {
			all = append(all, variable+"="+value)
		}
	}
	return all
}
