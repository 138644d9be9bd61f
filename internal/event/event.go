// Package event makes Events such that the API server takes them. Those that break a rule of its validation are
// refused, and client-go drops what was refused: the rules are in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/events.go.
package event

import (
	"cmp"
	"strings"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
)

// The most bytes that the API server takes.
const (
	maxNote = 1024
	maxWord = 128 // a reason, an action, a reporting instance
)

// ellipsis shows where a note was cut.
const ellipsis = "…"

// Fit returns a copy of e that the API server takes: texts that are too long are cut, and a reason or an action that is
// missing is filled in. For example, a note of 2,000 bytes becomes its first 1,021 and "…".
func Fit(e *eventsv1.Event) *eventsv1.Event {
	fit := *e
	fit.Note = Note(e.Note)
	fit.Reason = cmp.Or(cut(e.Reason, maxWord), "Unknown")
	fit.Action = cmp.Or(cut(e.Action, maxWord), fit.Reason)
	fit.ReportingInstance = cut(e.ReportingInstance, maxWord)
	return &fit
}

// Note returns text, or as much of its beginning as a note may have and "…".
func Note(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= maxNote {
		return text
	}
	return cut(text, maxNote-len(ellipsis)) + ellipsis
}

// cut returns as many whole runes of text as fit into limit bytes.
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
