package reconciletest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A lamp is outside of the API server. One actor switches it on again, and
// another reports that it is on.
type lamp struct {
	mu    sync.Mutex // guards the fields below
	state string
}

func (l *lamp) is(state string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == state
}

func (l *lamp) set(state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

func (l *lamp) on() { l.set("on") }

func lampOf(w *reconciletest.World) *lamp { return w.Outside().(*lamp) }

// lit is a case in which a lamp is switched off by the first step. switcher
// switches it on again.
func lit(switcher func(l *lamp)) *reconciletest.Case {
	c := breeding.Case(breeding.Right)
	c.Goal = nil
	c.Outside = func() any { return &lamp{} }
	c.Workload = []reconciletest.Step{
		{Name: "off", Do: func(_ context.Context, w *reconciletest.World) error {
			lampOf(w).set("off")
			return nil
		}},
		reconciletest.Patch("configmaps", "d/a", `{"data":{"step":"2"}}`),
	}
	c.Actors = []reconciletest.Actor{
		{
			Name:    "switch",
			Enabled: func(w *reconciletest.World) bool { return lampOf(w).is("off") },
			Do: func(w *reconciletest.World) {
				lampOf(w).set("switched")
				switcher(lampOf(w))
			},
		},
		{
			Name:    "report",
			Enabled: func(w *reconciletest.World) bool { return lampOf(w).is("on") },
			Do:      func(w *reconciletest.World) { lampOf(w).set("reported") },
		},
	}
	return c
}

// A run is not at rest while an actor has something to do, even if there are no
// writes and Options.Rest is short.
func TestRestWaitsForActorsThatDoNotWrite(t *testing.T) {
	for name, b := range map[string]struct {
		plan     string
		switcher func(l *lamp)
	}{
		"late":                 {"a1", (*lamp).on},
		"slow":                 {"", func(l *lamp) { <-time.After(time.Minute); l.on() }},
		"in a while":           {"", func(l *lamp) { time.AfterFunc(20*time.Second, l.on) }},
		"late, and in a while": {"a1", func(l *lamp) { time.AfterFunc(20*time.Second, l.on) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			lines, found := reconciletest.TraceOf(t, lit(b.switcher), &reconciletest.Options{Rest: 30 * time.Second}, b.plan)
			trace := strings.Join(lines, "\n")
			g.Expect(found).To(gomega.BeEmpty())
			g.Expect(trace).To(gomega.MatchRegexp(`(?s)others    off.*actor     switch.*actor     report.*others    patch`))
		})
	}
}

func TestRestWaitsForAnActorThatIsDue(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	c.Goal, c.Workload = nil, c.Workload[:1]
	c.Outside = func() any { return &lamp{} }
	began := time.Time{}
	due := func(w *reconciletest.World) time.Time {
		switch {
		case lampOf(w).is("on"):
			return time.Time{}
		case lampOf(w).is(""):
			lampOf(w).set("off")
			began = time.Now()
		}
		return began.Add(time.Hour)
	}
	c.Actors = []reconciletest.Actor{{
		Name: "clock", Due: due, Do: func(w *reconciletest.World) { lampOf(w).on() },
		Enabled: func(w *reconciletest.World) bool { return !lampOf(w).is("on") && !time.Now().Before(due(w)) },
	}}
	lines, found := reconciletest.TraceOf(t, c, nil, "")
	g.Expect(found).To(gomega.BeEmpty())
	g.Expect(strings.Join(lines, "\n")).To(gomega.MatchRegexp(`(?s)actor     clock.*others    create`))
}
