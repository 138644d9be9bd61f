package model_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/cluster"
)

// A process that was killed may still be in its grace when its successor has
// ended.
func TestStopWaitsForWhatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, scenario{nodes: 1, limit: 1})
		var ended atomic.Int32
		grace := time.Minute
		p := &proc{name: "p"}
		p.start = func(*cluster.Cluster, func() bool) (func(context.Context) error, error) {
			grace /= 2 // of the successor
			late := grace
			return func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(late)
				ended.Add(1)
				return nil
			}, nil
		}
		w.add(p, nil)
		w.start(p)
		w.kill(p.name)
		w.start(p)
		w.stop()
		gomega.NewWithT(t).Expect(ended.Load()).To(gomega.BeEquivalentTo(2))
	})
}
