package patch

import "github.com/homeostat/homeostat/informer"

const (
	DefaultFieldManager = defaultFieldManager
	MaxBytes            = maxBytes
)

// Limit sets how many objects a remembers.
func Limit[C any, T informer.Object](a *Applier[C, T], n int) { a.limit = n }

// Remembered is how many objects a remembers.
func Remembered[C any, T informer.Object](a *Applier[C, T]) int { return len(a.memory) }
