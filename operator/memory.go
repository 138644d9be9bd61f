package operator

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

const (
	// memoryShare is the fraction of the container's memory limit at which the
	// garbage collector works harder.
	memoryShare = 0.9
	// memoryPause is the time between two looks at the container's limit.
	memoryPause = 10 * time.Second
)

// LimitMemory sets the garbage collector's limit to 90 % of the container's
// memory limit and, until ctx ends, sets it again within ten seconds after the
// container's limit has changed. For example, the limit of a running Pod can be
// raised with `kubectl patch --subresource resize`, or by a
// VerticalPodAutoscaler. LimitMemory returns at once, and starts a goroutine for
// that, which ends with ctx.
//
// LimitMemory has no effect if GOMEMLIMIT is set, or while the container has no
// limit. The first limit, or an error, is logged at V(1), and a change at V(0).
// A limit that the program sets with [debug.SetMemoryLimit] counts until the
// container's limit changes. The Go runtime itself follows the container's CPU
// limit with GOMAXPROCS.
func LimitMemory(ctx context.Context, logger logr.Logger) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); set {
		return
	}
	m := &memory{read: memlimit.FromCgroup, log: logger}
	m.begin()
	go m.follow(ctx)
}

// memory follows the memory limit of the container.
type memory struct {
	read  memlimit.Provider
	log   logr.Logger
	limit uint64 // of the container, as it was read last; 0 if it has none
}

// begin sets the limit for the first time.
func (m *memory) begin() {
	limit, err := m.look()
	switch {
	case err != nil:
		m.log.V(1).Info("leaving the memory limit as it is", "reason", err.Error())
	case limit > 0:
		m.limit = limit
		m.log.V(1).Info("memory limit set", "bytes", m.set())
	}
}

// follow sets the limit again when the container's limit has changed. It
// returns when ctx ends. A limit that cannot be read changes nothing.
func (m *memory) follow(ctx context.Context) {
	ticker := time.NewTicker(memoryPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if limit, err := m.look(); err == nil && limit != m.limit {
			m.limit = limit
			m.log.Info("memory limit set again, because the limit of the container has changed",
				"container", limit, "bytes", m.set())
		}
	}
}

// look returns the memory limit of the container, or 0 if it has no limit.
func (m *memory) look() (uint64, error) {
	limit, err := m.read()
	if errors.Is(err, memlimit.ErrNoLimit) {
		return 0, nil
	}
	return limit, err
}

// set sets the limit of the garbage collector, and returns it.
func (m *memory) set() int64 {
	bytes := int64(math.MaxInt64) // no limit
	if m.limit > 0 && m.limit < math.MaxInt64 {
		bytes = int64(float64(m.limit) * memoryShare)
	}
	debug.SetMemoryLimit(bytes)
	return bytes
}
