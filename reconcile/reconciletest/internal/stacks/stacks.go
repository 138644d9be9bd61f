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

// reasons explain what a goroutine of the bubble waits for outside of it, by
// the beginning of its state.
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

var header = regexp.MustCompile(`^goroutine (\d+)[^\[]*\[([^\],]*)[^\]]*synctest bubble (\d+)[^\]]*\]:`)

// Diagnose explains what the goroutines of the program wait for, and where:
// those that wait for something outside of the bubble, and then those that wait
// in it: for one another, or for time.
func Diagnose() string { return diagnose(ofLastBubble(all())) }

// Left explains the goroutines that are left when a bubble has ended. It
// returns "" if there are none but filters of watches, as controller-runtime
// has for metadata: the last event of a stopped watch is never taken.
func Left() string {
	left := slices.DeleteFunc(ofLastBubble(all()), func(stack string) bool {
		return strings.Contains(stack, "k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop(")
	})
	if len(left) == 0 {
		return ""
	}
	return diagnose(left)
}

// Syncing reports whether a manager of controller-runtime waits in its Start
// for its caches to sync. If its context ends meanwhile, it computes until they
// have synced: kubernetes-sigs/controller-runtime#3440.
func Syncing() bool {
	return anyIn(starting) && slices.ContainsFunc(ofLastBubble(all()), func(stack string) bool {
		return strings.Contains(stack, "\n"+starting+"(")
	})
}

const starting = "sigs.k8s.io/controller-runtime/pkg/manager.(*runnableGroup).Start"

// Awaits reports whether a goroutine of the program waits for client-go's caches
// to sync.
func Awaits() bool {
	return slices.ContainsFunc(ofLastBubble(all()), func(stack string) bool {
		return strings.Contains(stack, "\nk8s.io/client-go/tools/cache.WaitFor")
	})
}

// anyIn reports whether a goroutine, of any bubble, is in a function, by its
// innermost 32 frames: far cheaper than the text of all stacks, and most
// programs never have such a goroutine.
func anyIn(function string) bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return true // more goroutines meanwhile
	}
	return slices.ContainsFunc(records[:n], func(r runtime.StackRecord) bool {
		return slices.ContainsFunc(r.Stack(), func(pc uintptr) bool { return runtime.FuncForPC(pc-1).Name() == function })
	})
}

// all is the stack of every goroutine.
func all() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// ofLastBubble keeps the stacks of the newest bubble: goroutines of earlier
// ones may be left.
func ofLastBubble(all string) []string {
	stacks := strings.Split(all, "\n\n")
	last := 0
	for _, stack := range stacks {
		last = max(last, bubbleOf(stack))
	}
	return slices.DeleteFunc(stacks, func(stack string) bool { return bubbleOf(stack) != last })
}

const most = 10 // goroutines that are explained

func diagnose(stacks []string) string {
	var words, blocked []string
	for _, stack := range stacks {
		if text, outside := explain(stack); outside {
			words = append(words, text)
		} else if text != "" {
			blocked = append(blocked, text)
		}
	}
	if words = append(words, blocked...); len(words) == 0 {
		return "All goroutines wait for one another, or for time."
	}
	return strings.Join(words[:min(most, len(words))], "\n")
}

// bubbleOf is the number of a goroutine's bubble; 0 for none, and for those
// that look.
func bubbleOf(stack string) int {
	h := header.FindStringSubmatch(stack)
	if h == nil || strings.Contains(stack, "internal/synctest.") || strings.Contains(stack, "internal/stacks.all(") {
		return 0
	}
	n, _ := strconv.Atoi(h[3])
	return n
}

// explain describes what a goroutine of a bubble waits for, and whether that is
// outside the bubble; "" if it belongs to a library.
func explain(stack string) (text string, outside bool) {
	h, where := header.FindStringSubmatch(stack), place(stack)
	if state, durable := strings.CutSuffix(h[2], " (durable)"); durable {
		if where != "" {
			text = fmt.Sprintf("goroutine %s, at %s, waits: %s.", h[1], where, state)
		}
		return text, false
	}
	for _, r := range reasons {
		if strings.HasPrefix(h[2], r.state) {
			return fmt.Sprintf("goroutine %s, at %s, waits for %s.", h[1], cmp.Or(where, "an unknown place"), r.why), true
		}
	}
	return "", false
}

// libraries begin the names of functions that programs call, and that wait for
// them.
var libraries = regexp.MustCompile(`^github\.com/homeostat/homeostat/` +
	`(internal/apisim|queue|informer|patch|leader|names|cluster|reconcile|reconcile/reconciletest)(/[a-z]+)*\.`)

// inner reports whether a function belongs to Go itself, whose packages have no
// dot in the first part of their path, or to a library.
func inner(function string) bool {
	root, _, nested := strings.Cut(function, "/")
	return !nested || !strings.Contains(root, ".") || libraries.MatchString(strings.TrimPrefix(function, "created by "))
}

// ofModule reports whether a file belongs to another module. Its folder has the
// module's version in its name wherever modules are stored, also in a binary
// built with -trimpath.
func ofModule(file string) bool {
	return strings.Contains(file, "@v") || strings.Contains(file, "/vendor/")
}

// place returns where the program waits: its innermost frame that belongs
// neither to Go nor to a library; "" if there is none.
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
