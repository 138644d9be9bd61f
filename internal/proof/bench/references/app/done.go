package app

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Done prints a line when Want Apps have been reconciled after all objects to
// which they refer existed.
type Done struct {
	Want int

	mu   sync.Mutex // guards the fields below
	keys map[types.NamespacedName]bool
}

// Add records that an App has been reconciled. It counts each App only once.
func (d *Done) Add(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[types.NamespacedName]bool{}
	}
	if count := len(d.keys); count < d.Want {
		d.keys[key] = true
		if count < len(d.keys) && len(d.keys) == d.Want {
			_, _ = fmt.Fprintln(os.Stdout, "done")
		}
	}
}

// Answer prints, for each line of the standard input, the memory in use after a
// garbage collection, and the number of goroutines.
func Answer() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		goroutines := runtime.NumGoroutine()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_, _ = fmt.Fprintln(os.Stdout, m.HeapInuse+m.StackInuse, goroutines)
	}
}
