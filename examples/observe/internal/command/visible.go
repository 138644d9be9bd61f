package command

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// isControl reports whether a terminal may take r for more than a character.
func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError
}

// Visible returns text with control characters, apart from tab and the end of a
// line, and invalid bytes as \x1b.
func Visible(text []byte) []byte {
	out := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case r != utf8.RuneError && isControl(r):
			out = fmt.Appendf(out, `\x%02x`, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}
