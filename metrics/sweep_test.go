package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// gone returns the names of n objects that do not exist.
func gone(n int) names.Func {
	return func(context.Context) ([]names.Name, error) {
		var all []names.Name
		for i := range n {
			all = append(all, names.Name{Key: reconcile.Key{Namespace: "d", Name: fmt.Sprintf("gone-%02d", i)}})
		}
		return all, nil
	}
}

func TestACollectorShowsOrphans(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		s.controller("test", &reconcile.Options{Known: gone(3)}, idle)
		s.controller("broken", &reconcile.Options{Known: names.Func(
			func(context.Context) ([]names.Name, error) { return nil, errors.New("no such file") })}, idle)
		stop := s.start()
		s.shows(`
# HELP homeostat_orphans_total Names that were enqueued because their object was deleted.
# TYPE homeostat_orphans_total counter
homeostat_orphans_total{controller="broken"} 0
homeostat_orphans_total{controller="test"} 3
# HELP homeostat_sweep_errors_total Sweeps that enqueued no orphan, because the names could not be listed or the safety limit refused them.
# TYPE homeostat_sweep_errors_total counter
homeostat_sweep_errors_total{controller="broken"} 1
homeostat_sweep_errors_total{controller="test"} 0
`)
		s.Expect(stop()).To(Succeed())
	})
}

func TestARefusedSweepShowsHowManyOrphansWaitAndTheWayOut(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		s.controller("test", &reconcile.Options{Known: gone(30)}, idle)
		stop := s.start()
		s.shows(`
# HELP homeostat_sweep_refused_orphans Orphans that the safety limit holds back: more than names.Options.MaxCount and MaxShare allow. If they were indeed deleted, let one sweep pass with Sweep.Confirm or names.Options.Confirmed.
# TYPE homeostat_sweep_refused_orphans gauge
homeostat_sweep_refused_orphans{controller="test"} 30
`)
		s.Expect(stop()).To(Succeed())
	})
}
