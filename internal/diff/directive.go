package diff

import (
	"bytes"
	"regexp"
	"strings"
)

// checkKey refuses a key that the server would take for a directive.
func (o *output) checkKey(k string) {
	if o.style == Strategic && strings.HasPrefix(k, "$") {
		o.fail(errUnmergeable)
	}
}

// directive matches a member whose name begins with a dollar.
var directive = regexp.MustCompile(`"(\$|\\u0024)([^"\\]|\\.)*":`)

// checkKeys refuses JSON with such a key, at any depth. It may refuse a few
// strings that only look like one.
func (o *output) checkKeys(data []byte) {
	if o.style == Strategic && (bytes.Contains(data, []byte(`"$`)) || bytes.Contains(data, []byte(`"\u0024`))) &&
		directive.Match(data) {
		o.fail(errUnmergeable)
	}
}
