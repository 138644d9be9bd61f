package command

import (
	"slices"
	"strconv"
	"strings"
)

// Line returns argv as one line for people. It quotes arguments that are empty
// or contain blanks, double quotes, backslashes or unprintable characters.
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
