package status

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// literal is HTML that stands in this package's source: a string that is known
// only at run time does not convert to it by itself.
type literal string

// markup writes HTML. All that comes from elsewhere is escaped by construction:
// it gets in only as an argument of add.
//
// html/template would escape, too, but it calls methods by name, and a program
// that can do so keeps all methods of all types it links: 16 MB more beside client-go.
type markup struct{ out bytes.Buffer }

// add writes format, in which %s and %d stand for args: in text or in an attribute
// with double quotes, nowhere else. Every argument is escaped.
func (m *markup) add(format literal, args ...any) {
	escaped := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case int, int64, uint64:
			escaped[i] = arg
		default:
			escaped[i] = html.EscapeString(strings.ToValidUTF8(fmt.Sprint(arg), "\uFFFD"))
		}
	}
	fmt.Fprintf(&m.out, string(format), escaped...)
}
