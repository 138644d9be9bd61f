// Package stacks explains a run that hangs: what its goroutines are waiting
// for, and where.
package stacks

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// reasons maps the beginning of a goroutine's state to a text that says what
// the goroutine waits for outside of its bubble.
var reasons = []struct{ state, reason string }{
	{"IO wait", "a socket, a pipe or a terminal: no data arrives there when virtual time passes. " +
		"Take clients from Env.Client or Env.Config; what is not in the API server belongs in Case.Outside"},
	{"syscall", "a file or another process, for which virtual time does not wait"},
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

var header = regexp.MustCompile(`^goroutine (\d+)[^\[]*\[([^\],]*)[^\]]*synctest bubble (\d+)[^\]]*\]:`)

// Diagnose returns a text that says where the goroutines of the program wait,
// and for what. The text begins with goroutines that wait for something outside
// of the bubble. Then come goroutines that wait for one another or for time to
// pass. The text describes only the first few.
func Diagnose() string { return diagnose(ofLastBubble(dump())) }

// Leftovers describes the goroutines that are left when a bubble has ended. It
// returns "" if no goroutines are left. It ignores filters of watches, such as
// controller-runtime's for metadata, because a filter waits forever if the last
// event of a stopped watch is not received.
func Leftovers() string {
	stacks := slices.DeleteFunc(ofLastBubble(dump()), func(stack string) bool {
		return strings.Contains(stack, "k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop(")
	})
	if len(stacks) == 0 {
		return ""
	}
	return diagnose(stacks)
}

// Syncing reports whether the Start of a controller-runtime manager is waiting
// for caches to sync. If its context ends during this time, Start loops without
// blocking until the caches have synced
// (kubernetes-sigs/controller-runtime#3440).
func Syncing() bool {
	return managed() && anyIn(starting) && slices.ContainsFunc(ofLastBubble(dump()), func(stack string) bool {
		return strings.Contains(stack, "\n"+starting+"(")
	})
}

const starting = "sigs.k8s.io/controller-runtime/pkg/manager.(*runnableGroup).Start"

// Awaits reports whether a goroutine of the program is waiting for client-go's
// caches to sync.
func Awaits() bool {
	return slices.ContainsFunc(ofLastBubble(dump()), func(stack string) bool {
		return strings.Contains(stack, "\nk8s.io/client-go/tools/cache.WaitFor")
	})
}

// anyIn reports whether a goroutine of this process has the function among its
// innermost 32 frames, or true if that is not known. This is far cheaper than
// the text of all stacks, and most programs never have such a goroutine.
func anyIn(function string) bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return true // unknown, because more goroutines have started meanwhile
	}
	return slices.ContainsFunc(records[:n], func(r runtime.StackRecord) bool {
		return slices.ContainsFunc(r.Stack(), func(pc uintptr) bool { return runtime.FuncForPC(pc-1).Name() == function })
	})
}

// dump returns the stacks of all goroutines as text, but at most the first four
// megabytes.
func dump() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// ofLastBubble returns the stacks of the newest bubble. Goroutines of earlier
// bubbles may still exist.
func ofLastBubble(text string) []string {
	stacks := strings.Split(text, "\n\n")
	last := 0
	for _, stack := range stacks {
		last = max(last, bubbleOf(stack))
	}
	return slices.DeleteFunc(stacks, func(stack string) bool { return bubbleOf(stack) != last })
}

const maxExplained = 10 // the maximum number of goroutines to explain

func diagnose(stacks []string) string {
	var words, blocked []string
	for _, stack := range stacks {
		if text, isOutside := explain(stack); isOutside {
			words = append(words, text)
		} else if text != "" {
			blocked = append(blocked, text)
		}
	}
	if words = append(words, blocked...); len(words) == 0 {
		return "All goroutines wait for one another, or for time to pass."
	}
	return strings.Join(words[:min(maxExplained, len(words))], "\n")
}

// bubbleOf returns the number of a goroutine's bubble. It returns 0 for a
// goroutine outside of bubbles, and for the goroutine that collects the stacks.
func bubbleOf(stack string) int {
	h := header.FindStringSubmatch(stack)
	if h == nil || strings.Contains(stack, "internal/synctest.") || strings.Contains(stack, "internal/stacks.dump(") {
		return 0
	}
	n, _ := strconv.Atoi(h[3])
	return n
}

// explain describes what a goroutine of a bubble waits for, and reports whether
// that is outside the bubble. It returns "" if the goroutine waits inside the
// bubble and has no frame of the program, and for a state that reasons does not
// have.
func explain(stack string) (text string, isOutside bool) {
	h, location := header.FindStringSubmatch(stack), place(stack)
	if state, durable := strings.CutSuffix(h[2], " (durable)"); durable {
		if location != "" {
			text = fmt.Sprintf("goroutine %s, at %s, waits: %s.", h[1], location, state)
		}
		return text, false
	}
	for _, r := range reasons {
		if strings.HasPrefix(h[2], r.state) {
			return fmt.Sprintf("goroutine %s, at %s, waits for %s.", h[1], cmp.Or(location, "an unknown place"), r.reason), true
		}
	}
	return "", false
}

// libraries matches the beginning of the names of library functions that
// programs call, and that wait on their behalf.
var libraries = regexp.MustCompile(`^github\.com/homeostat/homeostat/` +
	`(internal/apisim|queue|informer|patch|leader|names|cluster|reconcile|reconcile/reconciletest)(/[a-z]+)*\.`)

// inner reports whether a function belongs to a library or to Go itself. The
// paths of Go's own packages have no dot in their first part.
func inner(function string) bool {
	root, _, nested := strings.Cut(function, "/")
	return !nested || !strings.Contains(root, ".") || libraries.MatchString(strings.TrimPrefix(function, "created by "))
}

// ofModule reports whether a file belongs to another module. The path of such a
// file contains the module's version, in every module cache and in binaries
// built with -trimpath, or the folder vendor.
func ofModule(file string) bool {
	return strings.Contains(file, "@v") || strings.Contains(file, "/vendor/")
}

// place returns the location at which the program waits. It is the innermost
// frame that belongs neither to Go nor to a library. place returns "" if there
// is no such frame.
func place(stack string) string {
	lines := strings.Split(stack, "\n")
	for i, l := range lines {
		file, isFile := strings.CutPrefix(l, "\t")
		if !isFile || i == 0 || ofModule(file) || inner(lines[i-1]) {
			continue
		}
		file, _, _ = strings.Cut(file, " +")
		return file[strings.LastIndex(file, "/")+1:]
	}
	return ""
}
