package queue

import (
	"sync"
	"testing"
)

func TestOneHoldsTheLock(t *testing.T) {
	t.Parallel()
	const workers, times = 8, 5_000
	var (
		l       lock
		held    bool
		counted int
		running sync.WaitGroup
	)
	for range workers {
		running.Go(func() {
			for range times {
				l.Lock()
				if held {
					t.Error("two hold the lock")
				}
				held = true
				counted++
				held = false
				l.Unlock()
			}
		})
	}
	running.Wait()
	if counted != workers*times {
		t.Errorf("counted %d of %d", counted, workers*times)
	}
}

func TestALockThatIsHeldForLongIsWaitedFor(t *testing.T) {
	t.Parallel()
	var l lock
	l.Lock()
	got := make(chan struct{})
	go func() {
		l.Lock()
		close(got)
	}()
	for range 1_000 * tries * pause { // far longer than its patience
	}
	select {
	case <-got:
		t.Fatal("had while held")
	default:
	}
	l.Unlock()
	<-got
}
