package reconciletest

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
)

// inBubble plays one plan in a bubble of its own.
func inBubble(t *testing.T, c *Case, o Options, p plan.Plan, s setting) (out *outcome, err error) {
	t.Helper()
	watchdog := time.AfterFunc(hangs, hung)
	defer watchdog.Stop()
	defer func() {
		if bad := recover(); bad != nil {
			if text := fmt.Sprint(bad); !strings.Contains(text, "blocked goroutines remain") {
				panic(bad)
			}
			out.finding = &report.Finding{
				Oracle: report.Stop,
				Text:   "Run has returned, and goroutines that it started are still there",
			}
		}
	}()
	fixChance()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var r *run
		if r, err = newRun(c, o, p, s); err != nil {
			return
		}
		out = r.out
		r.play(ctx)
	})
	return out, err
}

// fixChance fixes the sources of chance that client-go has: the jitter of its reflectors and generated names.
func fixChance() {
	rand.Seed(1) //nolint:staticcheck // client-go takes its jitter from the global source; see Explore
	utilrand.Seed(1)
}

// hangs is how long one run may take in real time: a longer one waits for something outside of the bubble.
var hangs = time.Minute //nolint:gochecknoglobals // tests do not wait for a minute

// hung ends the test binary with an explanation: a goroutine that does not end cannot be taken out of its bubble.
func hung() {
	panic("reconciletest: a run has taken longer than " + hangs.String() + ", in real time. " + stacks.Diagnose())
}

// stuck is for a Run that does not return.
func stuck(within time.Duration) {
	panic(fmt.Sprintf("reconciletest: Run did not return within %v (virtual) after its context had ended; it must join"+
		" every goroutine that it starts. %s", within, stacks.Diagnose()))
}
