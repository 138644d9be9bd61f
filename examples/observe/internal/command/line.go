package command

import (
	"slices"
	"strconv"
	"strings"
)

// Line returns argv as one line for people. Arguments that are empty, or with
// blanks, quotes, backslashes or control characters in them, are quoted.
func Line(argv []string) string {
	shown := slices.Clone(argv)
	for i, argument := range shown {
		if argument == "" || strings.ContainsFunc(argument, func(r rune) bool {
			return r == '"' || r == '\\' || r == ' ' || !strconv.IsPrint(r)
		}) {
			shown[i] = strconv.Quote(argument)
		}
	}
	return strings.Join(shown, " ")
}
