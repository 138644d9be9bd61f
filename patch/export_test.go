package patch

// Limit sets how many objects a remembers.
func Limit[C any, T Object](a *Applier[C, T], n int) { a.limit = n }

// Remembered is how many objects a remembers.
func Remembered[C any, T Object](a *Applier[C, T]) int { return len(a.memory) }
