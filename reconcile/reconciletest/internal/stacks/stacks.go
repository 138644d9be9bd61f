// Package stacks explains a run that hangs: what its goroutines wait for, and where.
package stacks

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

// reasons explain what a goroutine of the bubble waits for outside of it, by the beginning of its state.
var reasons = []struct{ state, why string }{
	{"IO wait", "a socket, a pipe or a terminal: virtual time cannot bring about what comes through it. " +
		"Take clients from Env.Client or Env.Config; what is not in the API server belongs in Case.Outside"},
	{"syscall", "a file or another process, which virtual time cannot bring about"},
	{"sync.Mutex.Lock", "a lock that another goroutine holds while it waits. " +
		"Reactors of a fake clientset hold its lock as long as they run: nothing in them may wait"},
	{"sync.RWMutex", "a lock that another goroutine holds while it waits"},
	{"semacquire", "a lock that another goroutine holds while it waits"},
	{"running", "nothing: it computes, and does not come to an end"},
	{"runnable", "nothing: it computes, and does not come to an end"},
	{"chan receive", "a channel that was made outside of this run"},
	{"chan send", "a channel that was made outside of this run"},
	{"select", "a channel that was made outside of this run"},
}

var header = regexp.MustCompile(`^goroutine (\d+)[^\[]*\[([^\]]*synctest bubble[^\]]*)\]:`)

// Diagnose explains what each goroutine of the bubble waits for, and where, and then shows their stacks.
func Diagnose() string {
	buf := make([]byte, 4<<20)
	return diagnose(string(buf[:runtime.Stack(buf, true)]))
}

func diagnose(all string) string {
	var words, shown []string
	for stack := range strings.SplitSeq(all, "\n\n") {
		h := header.FindStringSubmatch(stack)
		if h == nil {
			continue
		}
		shown = append(shown, stack)
		if strings.Contains(h[2], "durable") || strings.Contains(stack, "stacks.Diagnose(") ||
			strings.Contains(stack, "internal/synctest.") {
			continue
		}
		for _, r := range reasons {
			if strings.HasPrefix(h[2], r.state) {
				words = append(words, fmt.Sprintf("goroutine %s, at %s, waits for %s.", h[1], place(stack), r.why))
				break
			}
		}
	}
	if len(words) == 0 {
		words = []string{"All goroutines wait for one another, or for time."}
	}
	return strings.Join(words, "\n") + "\n\nThe goroutines of the run:\n\n" + strings.Join(shown, "\n\n")
}

// inner reports whether a function is of Go itself, whose packages have no dot in the first part of their path, of the
// simulated server, or of reconciletest.
func inner(function string) bool {
	root, _, nested := strings.Cut(function, "/")
	return !nested || !strings.Contains(root, ".") || strings.Contains(function, "/internal/apisim.") ||
		strings.Contains(function, "/reconcile/reconciletest.")
}

// place is where the program waits: its innermost frame that is neither of Go nor of a library.
func place(stack string) string {
	lines := strings.Split(stack, "\n")
	for i, l := range lines {
		file, isFile := strings.CutPrefix(l, "\t")
		if !isFile || i == 0 || strings.Contains(file, "/pkg/mod/") || inner(lines[i-1]) {
			continue
		}
		file, _, _ = strings.Cut(file, " +")
		return file[strings.LastIndex(file, "/")+1:]
	}
	return "an unknown place"
}
