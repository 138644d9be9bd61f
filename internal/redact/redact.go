// Package redact leaves the contents of objects out of errors that are shown.
// The API server quotes the values of fields that it refuses, and decoders
// quote values that they cannot read. Such a value may be the content of a
// Secret.
package redact

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxLine bounds the length of a line, in bytes. The longest message
	// that should be shown whole is about a certificate that is not
	// accepted. With the reason and the remedy, it takes up to 900 bytes.
	maxLine = 1000
	// maxEnd is the number of bytes that are kept from the end of a longer
	// line, where messages have the remedy or the certificate. The other
	// bytes are kept from the beginning, which names the object. The
	// middle, which may contain a URL, is left out.
	maxEnd = 400
)

// Error returns the first line of an error, without the values that it quotes.
// For example, if the API server refuses an object as invalid, the result names
// the invalid fields but not their values.
func Error(err error) string {
	text := err.Error()
	for _, status := range statuses(err) {
		if apierrors.IsInvalid(status) {
			text = strings.ReplaceAll(text, status.Error(), fieldsOf(status.Status()))
		}
	}
	return Text(text)
}

// Text returns the first line of text without values. If the line is too long,
// a part in its middle is left out. Text is for errors of which only the text
// is left, such as the value of a panic or an error that was formatted with %v.
// If the text quotes a value that the server refused, Text also cuts off the
// rest of the line, since it may quote the value again.
func Text(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if containsAny(line, refusals) { // the expressions are slow, and few errors quote a value
		line = refused.ReplaceAllString(line, "$1 (not shown)")
	}
	if strings.Contains(line, "{") {
		line = literal.ReplaceAllString(line, "$1 (not shown)")
	}
	if containsAny(line, quoting) {
		line = unreadable.ReplaceAllString(line, `$1"…"`)
	}
	if len(line) > maxLine {
		begin, end := line[:maxLine-maxEnd], line[len(line)-maxEnd:]
		line = strings.ToValidUTF8(begin, "") + "…" + strings.ToValidUTF8(end, "")
	}
	return line
}

//nolint:gochecknoglobals // compiled once
var (
	// refusals are the words before a value in the text of a field.Error.
	refusals = []string{"Invalid value", "Unsupported value", "Duplicate value", ": Not found", ": Too long", ": Too many"}
	// refused matches the part of a field.Error's text that begins before the
	// refused value and extends to the end of the line.
	refused = regexp.MustCompile(`(` + strings.Join(refusals, "|") + `): .*`)
	// literal matches a Go value, from its type to the end of the line. The
	// server's refusal to update a Pod ends with the difference between the two
	// specs in this form, and callers may put it on one line.
	literal = regexp.MustCompile(`\b([a-z]\w*\.[A-Z]\w*)\{.*`)
	// quoting are the words before a value in the errors of decoders of times,
	// durations, numbers and addresses.
	quoting = []string{
		"parsing ", "parsing time ", "cannot parse ", "parse ", "invalid port ", "invalid URL escape ", "invalid duration ",
		"in duration ", "unknown unit ", "extra text: ", "ParseAddr(", "ParseAddrPort(", "ParsePrefix(",
	}
	// unreadable matches the values that these decoders quote, such as a
	// connection string that is not a valid URL.
	unreadable = regexp.MustCompile(
		`\b(` + strings.ReplaceAll(strings.Join(quoting, "|"), "(", `\(`) + `)"(?:[^"\\]|\\.)*"`)
)

// containsAny reports whether line contains one of the words.
func containsAny(line string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
}

// statuses returns the answers of the API server in the tree of err.
func statuses(err error) []*apierrors.StatusError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *apierrors.StatusError:
		return []*apierrors.StatusError{e}
	case interface{ Unwrap() []error }:
		var found []*apierrors.StatusError
		for _, part := range e.Unwrap() {
			found = append(found, statuses(part)...)
		}
		return found
	}
	if inner := errors.Unwrap(err); inner != nil {
		return statuses(inner)
	}
	return nil
}

// fieldsOf returns a text that names the object of status and its invalid
// fields.
func fieldsOf(status metav1.Status) string {
	if status.Details == nil {
		return "the object is invalid"
	}
	fields := make([]string, 0, len(status.Details.Causes))
	for _, cause := range status.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fmt.Sprintf("%s %q is invalid: %s", status.Details.Kind, status.Details.Name, strings.Join(fields, ", "))
}
