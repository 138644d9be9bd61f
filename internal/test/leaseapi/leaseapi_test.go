package leaseapi_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// ending keeps the function that a test calls at its end.
type ending struct{ end func() }

func (e *ending) Cleanup(f func()) { e.end = f }

// The replicas of a test that fails are not stopped before the API waits for
// their requests: the failure must not be reported as a data race.
func TestAReplicaMayAskWhileTheTestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ending{}
		link := leaseapi.New(e).Link(1)
		link.Slow = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := leaseapi.Background(func() error {
			for ctx.Err() == nil {
				_, _ = link.Get(ctx, "test", metav1.GetOptions{})
			}
			return nil
		})
		time.AfterFunc(time.Minute, cancel)
		synctest.Wait()
		e.end()
		_ = done()
		e.end() // the last request is still in flight
	})
}
