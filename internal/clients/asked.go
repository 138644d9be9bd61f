package clients

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Asked is a context that records which functions are on the stack when its
// Done or Value is first called. This shows what a method of a client does
// first. For example, a client that reads a cache of its own before it sends a
// request first uses the context in the code of that cache.
type Asked struct {
	context.Context //nolint:containedctx // Asked is a context

	once    sync.Once
	callers []uintptr
}

// Done implements [context.Context].
func (a *Asked) Done() <-chan struct{} {
	a.note()
	return a.Context.Done()
}

// Value implements [context.Context].
func (a *Asked) Value(key any) any {
	a.note()
	return a.Context.Value(key)
}

func (a *Asked) note() {
	a.once.Do(func() {
		const maxFrames = 64
		a.callers = make([]uintptr, maxFrames)
		a.callers = a.callers[:runtime.Callers(3, a.callers)]
	})
}

// IsDirect reports whether a function of package informer called a client of
// package gentype, and that client was the first to use the context. A true
// result is stored in known; if known is already true, IsDirect returns true at
// once. A type that embeds such a client and has a method of its own is not
// direct, because it is not known what else that method does.
func (a *Asked) IsDirect(known *atomic.Bool) bool {
	if known.Load() || len(a.callers) == 0 {
		return known.Load()
	}
	const client, informer = "k8s.io/client-go/gentype.", "github.com/homeostat/homeostat/informer."
	frames := runtime.CallersFrames(a.callers)
	byClient := false
	for frame, hasMore := frames.Next(); hasMore; frame, hasMore = frames.Next() {
		byInformer := strings.HasPrefix(frame.Function, informer)
		switch {
		case strings.HasPrefix(frame.Function, client):
			byClient = true
		case byClient, byInformer: // the caller of the client, or of something else
			known.Store(byClient && byInformer)
			return known.Load()
		}
	}
	return false
}

// IsRequest reports whether a REST client of client-go was the first to use the
// context.
func (a *Asked) IsRequest() bool {
	a.once.Do(func() {}) // the stack of a later user is not recorded
	frames := runtime.CallersFrames(a.callers)
	for {
		frame, hasMore := frames.Next()
		if strings.HasPrefix(frame.Function, "k8s.io/client-go/rest.") {
			return true
		}
		if !hasMore {
			return false
		}
	}
}
