package reconciletest_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func FuzzSchedule(f *testing.F) {
	reconciletest.Fuzz(f, breeding.Case(breeding.Right), &reconciletest.Options{Seeds: 20})
}
