package intern

// Lazy reports whether obj, a pointer, holds a lazy value outside of maps: one
// that methods write to when they read it, as [resource.Quantity] keeps its text.
// Two objects must not have such a value in common.
func Lazy(obj any) bool {
	p, of := pointee(obj)
	return of != nil && of.lazyAt(p)
}

// lazyAt reports whether the value at p is lazy or points to one that is.
func (of *plan) lazyAt(p place) bool {
	if of.lazy || !of.holds {
		return of.lazy
	}
	for n := range of.fields {
		switch f := &of.fields[n]; {
		case f.to == nil || !f.to.holds:
		case f.kind == pointer:
			if to := *pointerAt(at(p, f.offset)); to != nil && f.to.lazyAt(to) {
				return true
			}
		default:
			h := listAt(at(p, f.offset))
			for i := range uintptr(h.len) {
				if f.to.lazyAt(at(h.data, i*f.to.size)) {
					return true
				}
			}
		}
	}
	return false
}
