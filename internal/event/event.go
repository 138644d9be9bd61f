// Package event makes Events acceptable to the API server. The server refuses
// Events that break a rule of its validation, and client-go drops refused
// Events. The rules are in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/events.go.
package event

import (
	"cmp"
	"strings"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
)

// The API server's limits, in bytes.
const (
	maxNote = 1024
	maxWord = 128 // the limit of a reason, an action or a reporting instance
)

// ellipsis shows where a note was cut.
const ellipsis = "…"

// Fit returns a copy of e whose texts the API server accepts. It cuts texts
// that are too long, and fills in a missing reason or action. For example, a
// note of 2,000 ASCII characters becomes its first 1,021 characters and "…".
func Fit(e *eventsv1.Event) *eventsv1.Event {
	fit := *e
	fit.Note = Note(e.Note)
	fit.Reason = cmp.Or(cut(e.Reason, maxWord), "Unknown")
	fit.Action = cmp.Or(cut(e.Action, maxWord), fit.Reason)
	fit.ReportingInstance = cut(e.ReportingInstance, maxWord)
	return &fit
}

// Note returns text if it fits into a note. Otherwise it returns the beginning
// of text that fits, followed by "…". In both cases it replaces invalid UTF-8.
func Note(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= maxNote {
		return text
	}
	return cut(text, maxNote-len(ellipsis)) + ellipsis
}

// cut returns as many whole runes from the beginning of text as fit into limit
// bytes. Invalid UTF-8 becomes the replacement rune.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
