//go:build e2e

package settings_test

import (
	"os"
	"testing"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// The case of the exploration, on a real server: killed after every write.
func TestE2ESmoke(t *testing.T) {
	crd, err := os.ReadFile("../../deploy/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := e2e.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Apply(t.Context(), string(crd)); err != nil {
		t.Fatal(err)
	}
	live.Smoke(t, lifeOfSettings(), cluster.Config(), nil)
}
