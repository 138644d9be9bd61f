package reconciletest

import (
	"testing"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
)

// Replay plays the run of a token that a failed [Explore] printed. It fails the test with the counter-example if it
// is still one, and when the program no longer takes the way that the token describes.
func Replay(t *testing.T, c *Case, o *Options, token string) {
	t.Helper()
	if failure := replay(t, c, o, token); failure != "" {
		t.Error(failure)
	}
}

func replay(t *testing.T, c *Case, o *Options, text string) string {
	t.Helper()
	p, hash, less, err := plan.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	x := newExplorer(t, c, o)
	x.c, x.less = applyCut(less, c), less
	if !x.refer() || len(p) == 0 {
		return x.report.Failure
	}
	out := x.play(p, setting{seed: 1})
	x.judge(p, out)
	switch {
	case out.finding != nil:
		x.fail(p, out)
	case out.hash() != hash:
		x.report.Failure = "the trace no longer applies: the program passes, " +
			"on another way than the token's. Explore again."
	}
	return x.report.Failure
}
