package gate

import (
	"context"
	"strings"
	"sync"
	"time"
)

// A Check returns why no reboot may begin, or the empty string.
type Check interface {
	Blocked(ctx context.Context) string
}

// A Gate is closed while at least one of its checks returns a reason against
// reboots. It is safe for concurrent use.
type Gate struct {
	checks []Check
	keep   time.Duration

	mu     sync.Mutex // guards the fields below; held while the checks run
	asked  time.Time
	reason string
}

// callTimeout limits the time that all checks together may take to answer.
const callTimeout = 30 * time.Second

// New returns a gate with the given checks. The gate uses an answer of the
// checks for the duration in keep, and then asks them again.
func New(keep time.Duration, checks ...Check) *Gate { return &Gate{checks: checks, keep: keep} }

// Blocked returns the reasons that the checks give against a reboot, joined, or
// the empty string. It asks the checks only if their last answers are older
// than the duration that New got.
func (g *Gate) Blocked(ctx context.Context) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked.IsZero() && time.Since(g.asked) < g.keep {
		return g.reason
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reasons []string
	for _, c := range g.checks {
		if reason := c.Blocked(ctx); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	g.asked, g.reason = time.Now(), strings.Join(reasons, "; ")
	return g.reason
}

// abbreviate joins texts. If there are many, it joins only the first few, and
// adds that there are more.
func abbreviate(texts []string) string {
	const maxTexts = 5
	if len(texts) > maxTexts {
		texts = append(texts[:maxTexts:maxTexts], "and more")
	}
	return strings.Join(texts, ", ")
}
