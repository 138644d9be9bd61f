package apisim

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxDepth is the largest number of calls in a trail.
const maxDepth = 64

// trail holds the innermost calls of a goroutine. If there are fewer than
// maxDepth, the rest is zero.
type trail [maxDepth]uintptr

// stack records the calls of the calling goroutine at little cost.
func stack() trail {
	var t trail
	runtime.Callers(2, t[:])
	return t
}

// Caller is called while a goroutine serves a request. It returns the location
// in the program, as file:line, that made the request. It returns "" if the
// location is not known.
func Caller() string { return callerOf(stack()) }

const module = "github.com/homeostat/homeostat/"

// machinery lists prefixes of the functions between a program and the server.
var machinery = []string{
	"k8s.io/", "net/http.", "runtime.", "testing.", "sigs.k8s.io/", module + "internal/apisim.",
	module + "patch.", module + "patch/children.", module + "leader.", module + "informer.", module + "names.",
	module + "reconcile.",
	module + "cluster.", module + "reconcile/reconciletest.", module + "reconcile/reconciletest/internal/smoke.",
}

// maxTrails limits the cache of callers. A program makes calls from a few
// places only.
const maxTrails = 10_000

// callers caches the location for each trail, because symbolizing a stack takes
// longer than most calls.
var callers = struct {
	sync.Mutex // guards locations

	locations map[trail]string
}{locations: map[trail]string{}}

// callerOf returns the location of the innermost call in the program, as
// file:line, or "" if the trail has no such call.
func callerOf(t trail) string {
	callers.Lock()
	defer callers.Unlock()
	found, known := callers.locations[t]
	if known {
		return found
	}
	if len(callers.locations) >= maxTrails {
		clear(callers.locations)
	}
	found = t.caller()
	callers.locations[t] = found
	return found
}

func (t *trail) caller() string {
	depth := slices.Index(t[:], 0)
	if depth < 0 {
		depth = maxDepth
	}
	frames := runtime.CallersFrames(t[:depth])
	for hasMore := depth > 0; hasMore; {
		var f runtime.Frame
		f, hasMore = frames.Next()
		inner := slices.ContainsFunc(machinery, func(m string) bool { return strings.HasPrefix(f.Function, m) })
		if f.Function != "" && !inner {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
	}
	return ""
}
