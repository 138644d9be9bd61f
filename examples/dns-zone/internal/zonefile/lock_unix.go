//go:build unix

package zonefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockInterval is the time between two attempts to take the lock. Changes take
// milliseconds. The system call that waits for the lock cannot be used, because
// it does not return when a context ends.
const lockInterval = 5 * time.Millisecond

// lock waits until no other process holds the lock, and takes it. It returns an
// error if ctx ends first. The kernel releases the lock when this process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			_ = file.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("another process holds the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(lockInterval):
		}
	}
}
