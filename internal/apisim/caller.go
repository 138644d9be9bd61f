package apisim

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const deepest = 64

// stack records where the program is, cheaply.
func stack() []uintptr {
	var pcs [deepest]uintptr
	n := runtime.Callers(2, pcs[:])
	return slices.Clone(pcs[:n])
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

// callerOf is the innermost frame of the program.
func callerOf(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for more := len(stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		inner := slices.ContainsFunc(machinery, func(m string) bool { return strings.HasPrefix(f.Function, m) })
		if f.Function != "" && !inner {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
	}
	return ""
}
