//go:build e2e

package defaults_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// The case of the exploration, on a real server: killed after every write.
func TestE2ESmoke(t *testing.T) {
	cluster, err := e2e.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	live.Smoke(t, lifeOfTeams(t), cluster.Config(), nil)
}
