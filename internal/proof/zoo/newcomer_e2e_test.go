//go:build e2e

package zoo_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// The newcomer's case, on a real server.
func TestE2EKeySurvives(t *testing.T) {
	cluster, err := e2e.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	keySurvivesHere(t, cluster.Config())
}
