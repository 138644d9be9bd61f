package rules_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func TestADrainIsOverWhenNoPodIsLeftOrItsPolicyForcesIt(t *testing.T) {
	const early, late = 59 * time.Second, 60 * time.Second
	for name, c := range map[string]struct {
		policy         string
		left, notAsked int
		took           time.Duration
		want           bool
	}{
		"no Pod is left":                   {protocol.PolicyAbort, 0, 0, 0, true},
		"no Pod is left after the timeout": {protocol.PolicyAbort, 0, 0, late, true},
		"abort, too late":                  {protocol.PolicyAbort, 1, 0, late, false},
		"no policy, too late":              {"", 1, 0, late, false},
		"wait, too late":                   {protocol.PolicyWait, 1, 0, late, false},
		"force, in time":                   {protocol.PolicyForce, 1, 0, early, false},
		"force, too late":                  {protocol.PolicyForce, 1, 0, late, true},
		"force, one was never asked":       {protocol.PolicyForce, 2, 1, late, false},
	} {
		t.Run(name, func(t *testing.T) {
			terms := protocol.Terms{Policy: c.policy, DrainSeconds: 60}
			gomega.NewWithT(t).Expect(rules.Drained(terms, c.left, c.notAsked, c.took)).To(gomega.Equal(c.want))
		})
	}
}
