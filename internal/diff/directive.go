package diff

import (
	"bytes"
	"strings"
)

// checkKey refuses a key that the server would take for a directive.
func (o *output) checkKey(k string) {
	if o.style == Strategic && strings.HasPrefix(k, "$") {
		o.fail(errUnmergeable)
	}
}

// checkKeys refuses JSON with such a key, at any depth. It may refuse a few
// strings that only look like one.
func (o *output) checkKeys(data []byte) {
	if o.style != Strategic {
		return
	}
	for _, start := range []string{`"$`, `"\u0024`} {
		for rest := data; ; {
			_, behind, found := bytes.Cut(rest, []byte(start))
			if !found {
				break
			}
			if rest = behind; endsAsKey(rest) {
				o.fail(errUnmergeable)
				return
			}
		}
	}
}

// endsAsKey reports whether the string of which rest is the end is followed by a colon.
func endsAsKey(rest []byte) bool {
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return i+1 < len(rest) && rest[i+1] == ':'
		}
	}
	return false
}
