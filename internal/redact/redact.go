// Package redact leaves the contents of objects out of errors that are shown.
// The API server quotes the values of fields that it refuses, and decoders
// quote values that they cannot read. Such a value may be the content of a
// Secret.
package redact

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxLine bounds the length of a line, in bytes.
const maxLine = 500

// Error returns the first line of an error without values. For example, of an
// object that the API server calls invalid, it names only the fields.
func Error(err error) string {
	text := err.Error()
	for _, status := range statuses(err) {
		if apierrors.IsInvalid(status) {
			text = strings.ReplaceAll(text, status.Error(), fieldsOf(status.Status()))
		}
	}
	return Text(text)
}

// Text returns the first line of text without values, cut if it is too long. It
// is for errors of which only the text is left, for example in a panic or after
// formatting with %v. The rest of the line after a refused value is then cut
// off, since it may quote the value again.
func Text(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line = refused.ReplaceAllString(line, "$1 (not shown)")
	line = unreadable.ReplaceAllString(line, `$1"…"`)
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	return line
}

var (
	// refused matches the text of a field.Error from its value on.
	refused = regexp.MustCompile( //nolint:gochecknoglobals // compiled once
		`((?:Invalid|Unsupported|Duplicate) value|: Not found|: Too long|: Too many): .*`)
	// unreadable matches the values that decoders of times, durations, numbers
	// and addresses quote. For example, a connection string that is no URL.
	unreadable = regexp.MustCompile( //nolint:gochecknoglobals // compiled once
		`\b((?:parsing|parsing time|cannot parse|parse|invalid port|invalid URL escape|invalid duration|` +
			`in duration|unknown unit|extra text:) |Parse(?:Addr|AddrPort|Prefix)\()"(?:[^"\\]|\\.)*"`)
)

// statuses returns the answers of the API server in the tree of err.
func statuses(err error) []*apierrors.StatusError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *apierrors.StatusError:
		return []*apierrors.StatusError{e}
	case interface{ Unwrap() []error }:
		var all []*apierrors.StatusError
		for _, one := range e.Unwrap() {
			all = append(all, statuses(one)...)
		}
		return all
	}
	if inner := errors.Unwrap(err); inner != nil {
		return statuses(inner)
	}
	return nil
}

// fieldsOf names the object and its invalid fields.
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
