package operator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/hostclock"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// clocks contains, by cluster, the comparison of this machine's clock with the
// clock of the API server.
type clocks map[string]*hostclock.Comparison

// compareClocks returns a comparison for each config. A comparison sees all
// answers to clients that are made from its config after the call, and logs
// when the clocks begin to differ and when they agree again. compareClocks
// leaves out a config from which no client can be made, because cluster.New
// returns the error.
func compareClocks(log logr.Logger, configs map[string]*rest.Config) clocks {
	compared := clocks{}
	for name, config := range configs {
		if c, err := hostclock.New(config); err == nil {
			c.OnChange = func(offset time.Duration) { logClock(log.WithValues("cluster", name), offset) }
			config.Wrap(c.Wrap)
			compared[name] = c
		}
	}
	return compared
}

// logClock logs that the clock of this machine has begun to differ from the
// server's by offset, or that it agrees again if offset is 0.
func logClock(log logr.Logger, offset time.Duration) {
	if offset == 0 {
		log.Info("the clock of this machine agrees with the API server's again")
		return
	}
	now := time.Now()
	log.Error(fmt.Errorf("the clock of this machine is %s the API server's", hostclock.Apart(offset)), "clocks differ",
		"remedy", hostclock.Remedy, "here", clockText(now), "server", clockText(now.Add(-offset)))
}

// clockText returns t as messages show it.
func clockText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// problems returns a problem for each server whose clock differs.
func (c clocks) problems() []inspect.Problem {
	var problems []inspect.Problem
	for _, name := range slices.Sorted(maps.Keys(c)) {
		offset, answered := c[name].Difference()
		if offset == 0 {
			continue
		}
		check := "clock"
		if name != first {
			check += "/" + name
		}
		problems = append(problems, inspect.Problem{
			Check: check, Cause: "clocks differ",
			Reason: fmt.Sprintf("the clock of this machine is %s the API server's: this machine showed %s when the "+
				"server showed %s",
				hostclock.Apart(offset), clockText(answered), clockText(answered.Add(-offset))),
			Remedy: hostclock.Remedy + "; until then, do not trust the times that this replica writes",
		})
	}
	return problems
}
