package reconciletest

import "testing"

// ReplayText is Replay that does not fail the test.
func ReplayText(t *testing.T, c *Case, o *Options, token string) string {
	t.Helper()
	return replay(t, c, o, token)
}

// Hashes makes the runs without faults and with each single deviation, and returns the hashes of their traces.
func Hashes(t *testing.T, c *Case) []string {
	t.Helper()
	x := newExplorer(t, c, nil)
	x.refer()
	for _, p := range x.singles() {
		x.play(p, setting{seed: 1})
	}
	return x.hashes
}

// TraceOf plays the case under the plan of a token, and returns what happened and what was found.
func TraceOf(t *testing.T, c *Case, o *Options, text string) (lines []string, found string) {
	t.Helper()
	x := newExplorer(t, c, o)
	if !x.refer() {
		t.Fatal(x.report.Failure)
	}
	p, err := parsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	out := x.play(p, setting{seed: 1})
	if x.judge(p, out); out.finding != nil {
		found = out.finding.text
	}
	return out.lines, found
}
