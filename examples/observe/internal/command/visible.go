package command

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// isControl reports whether a terminal may interpret r as a control character.
func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError
}

// Visible returns text with invalid bytes and control characters in the form
// \x1b, except for tabs and line ends.
func Visible(text []byte) []byte {
	escaped := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped = fmt.Appendf(escaped, `\x%02x`, text[0])
		case r != utf8.RuneError && isControl(r):
			escaped = fmt.Appendf(escaped, `\x%02x`, r)
		default:
			escaped = append(escaped, text[:size]...)
		}
		text = text[size:]
	}
	return escaped
}
