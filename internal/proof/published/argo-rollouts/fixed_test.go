//go:build fixed

package argorollouts_test

import (
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// fixed says that the tests were built with fixed.mod.
const fixed = true

// Suspected, in this version: an Experiment that is created again while the
// ReplicaSet of the first one exists counts the collision again and again,
// without a pause, and its status grows.
func TestExperimentThatIsCreatedAgain(t *testing.T) {
	r := explored(t, &reconciletest.Case{Objects: []runtime.Object{experiment()}}, writes...)
	gomega.NewWithT(t).Expect(r.Oracle).To(gomega.Equal("rest"), r.Failure)
}
