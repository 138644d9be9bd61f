package apisim

import (
	"path"
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

// isMachinery reports whether a function stands between a program and the
// server. For example, the functions of client-go and of this library do.
// Tests, the examples and the programs of the laboratory count as programs.
func isMachinery(function string) bool {
	for _, others := range []string{"k8s.io/", "sigs.k8s.io/", "net/http.", "runtime.", "testing."} {
		if strings.HasPrefix(function, others) {
			return true
		}
	}
	inModule, found := strings.CutPrefix(function, module)
	if !found {
		return false
	}
	for _, programs := range []string{"examples/", "internal/proof/", "internal/test/"} {
		if strings.HasPrefix(inModule, programs) {
			return false
		}
	}
	name, _, _ := strings.Cut(path.Base(inModule), ".") // such as patch_test
	return !strings.HasSuffix(name, "_test")
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
		if f.Function != "" && !isMachinery(f.Function) {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
	}
	return ""
}
