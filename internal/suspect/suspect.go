// Package suspect words the errors about answers that the API server cannot
// have sent. Such an error says what is known of the answer, and names the
// sender as a guess, because an answer does not show who has sent it. The
// sender may be a proxy, a gateway, or an aggregated API server with a fault.
package suspect

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Guess is the end of each error of this package.
const Guess = "perhaps a proxy or gateway has sent it"

// Answerf returns an error about an answer. Its text is the formatted fact,
// followed by [Guess]. For example:
//
//	the answer has no UID: perhaps a proxy or gateway has sent it
//
// The fact must say what was answered, and in which way that differs from what
// was asked for. The error wraps the operands of %w.
func Answerf(format string, args ...any) error {
	return &answerError{fmt.Errorf(format, args...)}
}

type answerError struct{ fact error }

func (e *answerError) Error() string { return e.fact.Error() + ": " + Guess }

func (e *answerError) Unwrap() error { return e.fact }

// shownBytes is the largest number of bytes of a body that Describe shows.
const shownBytes = 80

// Describe returns the status and the content type of res, and the beginning of
// the body if that is a text without a Content-Encoding. For example:
//
//	status 502, content type "text/html", body "<html> <head><title>502 Bad Gateway"
//
// A body of any other type may be an object, and is not shown: it may have the
// contents of a Secret. Describe reads from the body of res, but does not wait
// for more than the first bytes.
func Describe(res *http.Response) string {
	said := fmt.Sprintf("status %d", res.StatusCode)
	contentType := res.Header.Get("Content-Type")
	if contentType != "" {
		said += fmt.Sprintf(", content type %q", contentType)
	}
	media, _, _ := mime.ParseMediaType(contentType)
	if res.Body == nil || !strings.HasPrefix(media, "text/") || res.Header.Get("Content-Encoding") != "" {
		return said
	}
	head := make([]byte, 4*shownBytes)        // spaces are left out below
	n, _ := io.ReadAtLeast(res.Body, head, 1) // the rest may never come
	head = bytes.Join(bytes.Fields(head[:n]), []byte(" "))
	if len(head) == 0 {
		return said
	}
	text := strings.ToValidUTF8(string(head[:min(len(head), shownBytes)]), "")
	return said + fmt.Sprintf(", body %q", text)
}
