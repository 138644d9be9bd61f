package informer

import (
	"strings"
	"time"
	"unicode"
)

const (
	// firstRepeat is the interval after which an error is logged again. It
	// doubles each time.
	firstRepeat = 2 * time.Second
	// maxLoggedErrors is the largest number of errors that are remembered.
	// Before a further error is remembered, all others are forgotten.
	maxLoggedErrors = 32
)

// logBackoff limits how often one error is logged. The error may be logged
// again at due. The interval doubles each time that it is logged.
type logBackoff struct {
	due      time.Time
	interval time.Duration
}

// loggedErrors are the errors that were logged since the last success. The key
// is the error's text without the words that contain a digit, because ports,
// times and the ids of requests differ each time.
type loggedErrors map[string]logBackoff

// isDue reports whether text must be logged now. It must be logged if it is
// new, or if its interval has passed since it was last logged. Then isDue
// counts it as logged now, and the interval doubles.
func (t *loggedErrors) isDue(text string, now time.Time) bool {
	var lasting strings.Builder
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			lasting.WriteString(word + " ")
		}
	}
	text = lasting.String()
	known, ok := (*t)[text]
	switch {
	case !ok:
		if *t == nil || len(*t) >= maxLoggedErrors {
			*t = loggedErrors{}
		}
		known.interval = firstRepeat
	case now.Before(known.due):
		return false
	default:
		known.interval *= 2
	}
	known.due = now.Add(known.interval)
	(*t)[text] = known
	return true
}
