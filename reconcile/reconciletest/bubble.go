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
)

// inBubble plays one plan in a bubble of its own.
func inBubble(t *testing.T, c *Case, o Options, p plan, s setting) (out *outcome, err error) {
	t.Helper()
	watchdog := time.AfterFunc(hangs, hung)
	defer watchdog.Stop()
	defer func() {
		if bad := recover(); bad != nil {
			if text := fmt.Sprint(bad); !strings.Contains(text, "blocked goroutines remain") {
				panic(bad)
			}
			out.finding = &finding{
				oracle: oracleStop,
				text:   "Run has returned, and goroutines that it started are still there",
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
