package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// Each list costs that of a whole kind where the server does not select.
func TestSlotsThatComeOneAfterTheOtherAreListedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		slots int
		took  time.Duration
	}{
		"one comes":                 {time.Second, 1, 300 * time.Millisecond},
		"they come for some time":   {200 * time.Millisecond, 5, 1200 * time.Millisecond},
		"they do not cease to come": {100 * time.Millisecond, 1000, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				ctx, cancel := context.WithCancel(t.Context())
				s := &shardCaches{waiting: map[int]*cachedSlot{}}
				s.join(0)
				go func() {
					for slot := 1; slot < c.slots; slot++ {
						select {
						case <-ctx.Done():
							return
						case <-time.After(c.every):
							s.join(slot)
						}
					}
				}()
				began := time.Now()
				g.Expect(s.gathered(ctx)).To(BeTrue())
				g.Expect(time.Since(began)).To(Equal(c.took))
				cancel()
				g.Expect(s.gathered(ctx)).To(BeFalse())
			})
		})
	}
}
