package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// restart replaces a member by one with a new name, as a rollout does.
func (x *course) restart(n, generation int) {
	old := x.members[n]
	x.members = slices.Clone(x.members)
	name, _, _ := strings.Cut(old, "-g")
	x.members[n] = fmt.Sprintf("%s-g%d", name, generation)
	slices.Sort(x.members)
	before := slices.Clone(x.owners)
	for slot, owner := range x.owners {
		if owner == old {
			x.owners[slot] = unowned
		}
	}
	x.owners = planByWeight(x.owners, x.members, x.division.weights).target
	for slot := range x.owners {
		if x.owners[slot] != before[slot] {
			x.came[slot], x.busy[slot], x.later[slot] = x.now, 0, 0
		}
	}
	delete(x.meters, old)
	if n == 0 {
		x.decider = decider{}
	}
	x.moved = x.now
	x.settle()
}

// Clusters in which something happens all the time do not make the ranges flutter.
func TestRangesStayWhileReplicasRestart(t *testing.T) {
	names := sets()["team-01…99"]
	of := tenants(names, 6)
	heavy := maps.Clone(of)
	heavy[names[3]] = tenant{3000, 9}
	for label, c := range map[string]struct {
		of    map[string]tenant
		every time.Duration
		count int
		long  bool
	}{
		"rollout each hour, 8":           {of, time.Hour, 8, true},
		"rollout each hour, heavy, 3":    {heavy, time.Hour, 3, true},
		"one restarts every 10 min, 3":   {of, 10 * time.Minute, 3, false},
		"heavy, no restarts, 16":         {heavy, 1000 * time.Hour, 16, true},
		"heavy, rollout each 3 hours, 8": {heavy, 3 * time.Hour, 8, true},
		"one replica":                    {heavy, time.Hour, 1, true},
	} {
		t.Run(label, func(t *testing.T) {
			x := newCourse(t, nil, c.of, c.count, c.long)
			generation, early := 0, 0
			for hour := range 16 {
				for minute := range 60 {
					at := time.Duration(hour*60+minute) * time.Minute
					if at > 0 && at%c.every == 0 {
						generation++
						if c.every >= time.Hour {
							for n := range c.count {
								x.restart(n, generation)
							}
						} else {
							x.restart(generation%c.count, generation)
						}
					}
					x.minute()
				}
				if hour == 5 {
					early = x.divisions
				}
			}
			t.Logf("%d divisions in 6 h, %d in the 10 h after; %d moves; heaviest %.2f (limit %.2f)",
				early, x.divisions-early, x.moves, x.heaviest(), x.limit())
			x.g.Expect(x.divisions - early).To(BeNumerically("<=", 1))
		})
	}
}
