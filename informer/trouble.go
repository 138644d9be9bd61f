package informer

import (
	"strings"
	"time"
	"unicode"
)

const (
	// answerWarning is how long a request may wait for its answer until that is logged.
	answerWarning = 1500 * time.Millisecond
	// firstRepeat is after how long the same trouble is logged again: then after
	// twice as long, and so on.
	firstRepeat = 2 * time.Second
	// manyTroubles are forgotten.
	manyTroubles = 32
)

// A trouble is what was logged, and when it may be again. What is logged of
// requests that fail time and again is new, or its interval has doubled.
type trouble struct {
	again    time.Time
	interval time.Duration
}

// troubles are those since the last success, by their text without digits: ports,
// versions and times differ each time.
type troubles map[string]trouble

// tell reports whether text has to be logged now.
func (t *troubles) tell(text string, now time.Time) bool {
	text = strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
	known, ok := (*t)[text]
	switch {
	case !ok:
		if *t == nil || len(*t) >= manyTroubles {
			*t = troubles{}
		}
		known.interval = firstRepeat
	case now.Before(known.again):
		return false
	default:
		known.interval *= 2
	}
	known.again = now.Add(known.interval)
	(*t)[text] = known
	return true
}
