//go:build mutate

package mutation

import "sync/atomic"

var current atomic.Value // The Mutation that is switched on.

// Has tells whether m is switched on.
func Has(m Mutation) bool { return current.Load() == m }

// Switch switches m on and every other mutation off, until restore is called.
func Switch(m Mutation) (restore func()) {
	current.Store(m)
	return func() { current.Store(Mutation("")) }
}
