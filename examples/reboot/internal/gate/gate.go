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

// A Gate is closed while one of its checks has a reason. It is safe for
// concurrent use.
type Gate struct {
	checks []Check
	keep   time.Duration

	mu    sync.Mutex // guards the fields below; held while the checks are asked
	asked time.Time
	why   string
}

// callTimeout is the time limit for one call of all checks.
const callTimeout = 30 * time.Second

// New returns a gate that keeps answers for the time keep.
func New(keep time.Duration, checks ...Check) *Gate { return &Gate{checks: checks, keep: keep} }

// Blocked returns the reasons of all checks against a reboot, or the empty
// string.
func (g *Gate) Blocked(ctx context.Context) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked.IsZero() && time.Since(g.asked) < g.keep {
		return g.why
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reasons []string
	for _, c := range g.checks {
		if why := c.Blocked(ctx); why != "" {
			reasons = append(reasons, why)
		}
	}
	g.asked, g.why = time.Now(), strings.Join(reasons, "; ")
	return g.why
}

// some joins the first few of many texts.
func some(texts []string) string {
	const most = 5
	if len(texts) > most {
		texts = append(texts[:most:most], "and more")
	}
	return strings.Join(texts, ", ")
}
