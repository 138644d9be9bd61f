package operator

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// The kubelet changes the limit of a container that runs: a resize in place.
func TestTheMemoryLimitOfTheContainerIsFollowed(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var container atomic.Pointer[memlimit.Provider]
		state := func(limit uint64, err error) {
			read := memlimit.Provider(func() (uint64, error) { return limit, err })
			container.Store(&read)
		}
		state(100<<20, nil)
		m := &memory{read: func() (uint64, error) { return (*container.Load())() }, log: logr.Discard()}
		becomes := func(limit uint64, err error, want int64) {
			t.Helper()
			state(limit, err)
			<-time.After(memoryPause)
			synctest.Wait()
			g.Expect(debug.SetMemoryLimit(-1)).To(Equal(want))
		}
		m.begin()
		g.Expect(debug.SetMemoryLimit(-1)).To(Equal(int64(90 << 20)))
		ctx, stop := context.WithCancel(t.Context())
		go m.follow(ctx)

		becomes(1000<<20, nil, 900<<20)
		becomes(50<<20, nil, 45<<20)
		becomes(0, errors.New("no such file"), 45<<20)
		becomes(0, memlimit.ErrNoLimit, math.MaxInt64)
		becomes(100<<20, nil, 90<<20)
		debug.SetMemoryLimit(70 << 20) // the program's own decision
		becomes(100<<20, nil, 70<<20)
		becomes(200<<20, nil, 180<<20)

		stop()
		becomes(100<<20, nil, 180<<20)
	})
}

// The bubble ends only when the goroutine has ended.
func TestTheMemoryLimitIsFollowedUntilTheContextEnds(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "") // restores it after the test
	NewWithT(t).Expect(os.Unsetenv("GOMEMLIMIT")).To(Succeed())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		LimitMemory(ctx, logr.Discard())
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		NewWithT(t).Expect(string(stacks)).To(ContainSubstring("(*memory).follow"))
		cancel()
	})
}

// A container without a limit leaves the limit that the program has set.
func TestNoMemoryLimitHasNoEffect(t *testing.T) {
	before := debug.SetMemoryLimit(70 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for _, read := range []memlimit.Provider{
		func() (uint64, error) { return 0, memlimit.ErrNoLimit },
		func() (uint64, error) { return 0, memlimit.ErrCgroupsNotSupported },
	} {
		(&memory{read: read, log: logr.Discard()}).begin()
		NewWithT(t).Expect(debug.SetMemoryLimit(-1)).To(Equal(int64(70 << 20)))
	}
}
