package live

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Try is like Smoke, but returns the error and does not fail the test.
func Try(t testing.TB, c *reconciletest.Case, config *rest.Config, o *Options) (*reconciletest.Report, error) {
	t.Helper()
	return smoke(t.Context(), c, config, o)
}
