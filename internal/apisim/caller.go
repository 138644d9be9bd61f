package apisim

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const deepest = 64

// trail is where a goroutine is: the innermost calls, ended by a zero if there are fewer.
type trail [deepest]uintptr

// stack records where the program is, cheaply.
func stack() trail {
	var t trail
	runtime.Callers(2, t[:])
	return t
}

// Caller is the place in the program, file:line, that makes the request which the calling goroutine serves; "" when it
// is not known.
func Caller() string { return callerOf(stack()) }

const module = "github.com/homeostat/homeostat/"

// machinery begins the names of the functions between a program and the server.
var machinery = []string{
	"k8s.io/", "net/http.", "runtime.", "testing.", "sigs.k8s.io/", module + "internal/apisim.",
	module + "patch.", module + "patch/children.", module + "leader.", module + "informer.", module + "names.",
	module + "reconcile.",
	module + "cluster.", module + "reconcile/reconciletest.", module + "reconcile/reconciletest/internal/smoke.",
}

// mostTrails bounds the cache of callers: a program calls from a few places only.
const mostTrails = 10_000

// callers caches the result for each trail: naming the places of a stack takes longer than most calls.
var callers = struct {
	sync.Mutex // guards known

	known map[trail]string
}{known: map[trail]string{}}

// callerOf is the innermost frame of the program.
func callerOf(t trail) string {
	callers.Lock()
	defer callers.Unlock()
	found, known := callers.known[t]
	if known {
		return found
	}
	if len(callers.known) >= mostTrails {
		clear(callers.known)
	}
	found = t.caller()
	callers.known[t] = found
	return found
}

func (t *trail) caller() string {
	depth := slices.Index(t[:], 0)
	if depth < 0 {
		depth = deepest
	}
	frames := runtime.CallersFrames(t[:depth])
	for more := depth > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		inner := slices.ContainsFunc(machinery, func(m string) bool { return strings.HasPrefix(f.Function, m) })
		if f.Function != "" && !inner {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
	}
	return ""
}
