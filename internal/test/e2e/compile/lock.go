package compile

import (
	"context"
	"fmt"
	"os"
	"time"
)

const lockInterval = 200 * time.Millisecond

// lockFile locks the file against other processes, waits for them as long as
// ctx allows, and returns the function that unlocks it.
func lockFile(ctx context.Context, path string, r *report) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the build: %w", err)
	}
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	began, said := time.Now(), time.Time{}
	for tryLock(f) != nil {
		if time.Since(said) >= reportInterval && time.Since(began) >= lockInterval {
			said = time.Now()
			r.say(fmt.Sprintf("waiting for another process that builds bin/controlplane (%v)",
				time.Since(began).Round(time.Second)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close() // no data was written
			return nil, fmt.Errorf("waiting for another process that has locked %s: %w", path, ctx.Err())
		}
	}
	return func() { _ = f.Close() }, nil
}
