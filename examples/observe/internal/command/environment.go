package command

import (
	"os"
	"slices"
	"strings"
)

// inherited lists the variables that every program gets if this process has
// them.
var inherited = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// Environment returns the environment of programs. Without declarations it is
// the whole environment of this process. Otherwise it has PATH, HOME, LANG, TZ,
// TMPDIR and the declared variables. A declaration is NAME, which inherits the
// value, or NAME=VALUE. A variable that would be inherited, but is not set in
// this process, is left out.
func Environment(declared []string) []string {
	if len(declared) == 0 {
		return os.Environ()
	}
	var environment []string
	for _, variable := range append(slices.Clip(inherited), declared...) {
		if strings.Contains(variable, "=") {
			environment = append(environment, variable)
		} else if value, ok := os.LookupEnv(variable); ok {
			environment = append(environment, variable+"="+value)
		}
	}
	return environment
}
