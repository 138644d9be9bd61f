package reconciletest_test

import (
	"testing"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func FuzzSchedule(f *testing.F) {
	reconciletest.Fuzz(f, breeding(right), &reconciletest.Options{Seeds: 20})
}
