//go:build fixed

package snapshotter_test

import (
	"testing"

	controller "github.com/kubernetes-csi/external-snapshotter/v8/pkg/common-controller"

	"github.com/homeostat/homeostat/internal/proof/published/results"
)

// Suspected, in this version: a content without its finalizer, if the answer to
// its creation is lost, and the watch of contents is slow.
func TestContentWithoutItsFinalizer(t *testing.T) {
	o := options()
	r := results.Search(t, controller.NewCSISnapshotCommonController, snapshot(), &o)
	if r.Oracle != "state" {
		t.Errorf("found by %q, want \"state\": %s", r.Oracle, r.Failure)
	}
}
