package rules_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func TestADrainEndsAsItsPolicySays(t *testing.T) {
	const early, late = 59 * time.Second, 60 * time.Second
	window := metav1.Time{Time: start.Add(30 * time.Second)}
	for name, c := range map[string]struct {
		terms protocol.Terms
		left  int
		after time.Duration
		want  rules.DrainStep
	}{
		"no Pod is left":                         {protocol.Terms{DrainSeconds: 60}, 0, 0, rules.DrainOver},
		"no Pod is left after the timeout":       {protocol.Terms{DrainSeconds: 60}, 0, late, rules.DrainOver},
		"abort, in time":                         {protocol.Terms{Policy: protocol.PolicyAbort, DrainSeconds: 60}, 1, early, rules.DrainOn},
		"abort, too late":                        {protocol.Terms{Policy: protocol.PolicyAbort, DrainSeconds: 60}, 1, late, rules.CallOff},
		"no policy is abort":                     {protocol.Terms{DrainSeconds: 60}, 1, late, rules.CallOff},
		"an unknown policy is abort":             {protocol.Terms{Policy: "?", DrainSeconds: 60}, 1, late, rules.CallOff},
		"no timeout is ten minutes":              {protocol.Terms{}, 1, 10*time.Minute - 1, rules.DrainOn},
		"no timeout is ten minutes, over":        {protocol.Terms{}, 1, 10 * time.Minute, rules.CallOff},
		"wait, too late":                         {protocol.Terms{Policy: protocol.PolicyWait, DrainSeconds: 60}, 1, late, rules.DrainOn},
		"force, in time":                         {protocol.Terms{Policy: protocol.PolicyForce, DrainSeconds: 60}, 1, early, rules.DrainOn},
		"force, too late":                        {protocol.Terms{Policy: protocol.PolicyForce, DrainSeconds: 60}, 1, late, rules.DrainOver},
		"the window is open":                     {protocol.Terms{DrainSeconds: 60, NotAfter: window}, 1, 29 * time.Second, rules.DrainOn},
		"the window has closed":                  {protocol.Terms{DrainSeconds: 60, NotAfter: window}, 1, 30 * time.Second, rules.CallOff},
		"the window has closed on a drained one": {protocol.Terms{NotAfter: window}, 0, 30 * time.Second, rules.CallOff},
		"wait, the window has closed":            {protocol.Terms{Policy: protocol.PolicyWait, NotAfter: window}, 1, late, rules.CallOff},
		"force, the window has closed":           {protocol.Terms{Policy: protocol.PolicyForce, NotAfter: window}, 1, late, rules.CallOff},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			p := protocol.Progress{Terms: c.terms, AcceptedAt: metav1.Time{Time: start}}
			step, why := rules.Drain(p, c.left, start.Add(c.after))
			g.Expect(step).To(gomega.Equal(c.want), why)
			g.Expect(why).NotTo(gomega.BeEmpty())
		})
	}
}
