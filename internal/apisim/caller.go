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

// ours begins the names of our own packages.
const ours = "github.com/homeostat/homeostat/"

// machinery is what lies between a program and the server.
var machinery = []string{
	"k8s.io/", "net/http.", "runtime.", "testing.", "sigs.k8s.io/",
	ours + "patch.", ours + "leader.", ours + "informer.", ours + "names.", ours + "reconcile.",
}

// caller is the innermost frame that is neither of a client nor of this package.
func (p *parked) caller() string {
	if len(p.stack) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(p.stack)
	for {
		f, more := frames.Next()
		inner := strings.Contains(f.Function, "/internal/apisim.") ||
			slices.ContainsFunc(machinery, func(m string) bool { return strings.HasPrefix(f.Function, m) })
		if f.Function != "" && !inner {
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}
