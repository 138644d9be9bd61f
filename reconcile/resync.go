package reconcile

import (
	"context"
	"time"

	"github.com/homeostat/homeostat/queue"
)

// resync enqueues all known keys once in each period, evenly spread, until ctx
// ends.
func (c *Controller) resync(ctx context.Context) {
	period := time.NewTicker(c.options.Resync)
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		keys := c.keys()
		for i, key := range keys {
			c.queue.AddWithOptions(key, queue.AddOptions{
				Lane:  queue.Background,
				After: c.options.Resync * time.Duration(i) / time.Duration(len(keys)),
				Cause: queue.Cause{Trigger: "resync", Type: "resync", Namespace: key.Namespace, Name: key.Name},
			})
		}
	}
}
