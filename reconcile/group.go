package reconcile

import (
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// guardedGroup returns Options.Group without its panics: keys that it panics on
// are one group. It returns nil if there is none.
func (c *Controller) guardedGroup() func(Key) string {
	if c.options.Group == nil {
		return nil
	}
	return func(key Key) (group string) {
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			group = ""
			if n := c.stats.panics.Add(1); n&(n-1) == 0 { // each event of the key leads here
				klog.Background().Error(fmt.Errorf("panic: %v\n%s", r, debug.Stack()),
					"Options.Group panicked; the key has no group", "controller", c.name, "key", key.String())
			}
		}()
		return c.options.Group(key)
	}
}
