package queue

import (
	"iter"
)

// While a key waits in a lower lane, one in every retryingShare or
// backgroundShare consecutive dispatches is taken from that lane.
const (
	retryingShare   = 8
	backgroundShare = 16
)

// lanes stores the waiting keys in the order in which they are dispatched: by
// lane (see choose), then the groups in turn, then first in, first out.
type lanes[K comparable] struct {
	entries  *slab[entry[K]]
	rings    [laneCount]ring
	ready    int // number of keys in all rings
	groups   slab[group]
	numberOf map[string]uint32 // group numbers by name; nil if there is only one group
}

// ring links the groups that have waiting keys in one lane. They take turns.
type ring struct {
	cursor  uint32 // the next group, 0 for an empty ring
	waiting int
	// skipped counts the dispatches from other lanes while keys waited in this
	// one, since the last dispatch from this lane.
	skipped int
}

// group is the set of keys for which Options.Group returns the same name.
type group struct {
	name  string
	users int // number of entries of this group
	fifos [laneCount]fifo
}

// fifo is the list of the waiting keys of one group in one lane. The entries of
// the keys are linked. next and prev are the neighbours of the group in the
// ring.
type fifo struct {
	head, tail uint32
	next, prev uint32
}

// push puts e, entry n, at the end of its group's list in its lane.
func (l *lanes[K]) push(n uint32, e *entry[K]) {
	g := l.groupOf(e)
	r, f := &l.rings[e.lane], &l.groups.value(g).fifos[e.lane]
	e.prev, e.next = f.tail, 0
	if f.tail != 0 {
		l.entries.value(f.tail).next = n
	} else {
		f.head = n
		l.join(e.lane, g)
	}
	f.tail = n
	r.waiting++
	l.ready++
}

// unlink takes e out of its lane.
func (l *lanes[K]) unlink(e *entry[K]) {
	g := l.groupOf(e)
	f := &l.groups.value(g).fifos[e.lane]
	if e.prev != 0 {
		l.entries.value(e.prev).next = e.next
	} else {
		f.head = e.next
	}
	if e.next != 0 {
		l.entries.value(e.next).prev = e.prev
	} else {
		f.tail = e.prev
	}
	if f.head == 0 {
		l.leave(e.lane, g)
	}
	l.rings[e.lane].waiting--
	l.ready--
}

// join puts a group at the end of a ring.
func (l *lanes[K]) join(lane Lane, g uint32) {
	r, f := &l.rings[lane], &l.groups.value(g).fifos[lane]
	if r.cursor == 0 {
		r.cursor, f.next, f.prev = g, g, g
		return
	}
	first := &l.groups.value(r.cursor).fifos[lane]
	f.next, f.prev = r.cursor, first.prev
	l.groups.value(first.prev).fifos[lane].next = g
	first.prev = g
}

// leave takes a group out of a ring.
func (l *lanes[K]) leave(lane Lane, g uint32) {
	r, f := &l.rings[lane], &l.groups.value(g).fifos[lane]
	if f.next == g {
		r.cursor = 0
		return
	}
	l.groups.value(f.prev).fifos[lane].next = f.next
	l.groups.value(f.next).fifos[lane].prev = f.prev
	if r.cursor == g {
		r.cursor = f.next
	}
}

// pop removes the next entry and returns it. At least one key must be waiting.
func (l *lanes[K]) pop() (n uint32, e *entry[K]) {
	lane := l.choose()
	r := &l.rings[lane]
	for i := range l.rings {
		if l.rings[i].waiting > 0 {
			l.rings[i].skipped++
		}
	}
	r.skipped = 0
	f := &l.groups.value(r.cursor).fifos[lane]
	r.cursor = f.next
	n = f.head
	e = l.entries.value(n)
	l.unlink(e)
	return n, e
}

// choose returns the lane of the next dispatch: the highest with waiting keys,
// unless a lower lane has been skipped as often as its share allows. Background
// is chosen one dispatch early, because Retrying may be due at the same time.
func (l *lanes[K]) choose() Lane {
	live, retrying, background := &l.rings[Normal], &l.rings[Retrying], &l.rings[Background]
	switch {
	case retrying.waiting > 0 && retrying.skipped >= retryingShare-1:
		return Retrying
	case background.waiting > 0 && background.skipped >= backgroundShare-2:
		return Background
	case live.waiting > 0:
		return Normal
	case retrying.waiting > 0:
		return Retrying
	default:
		return Background
	}
}

// onlyGroup is the group of all keys of a queue without groups.
const onlyGroup = 1

// groupOf returns the number of the group of e.
func (l *lanes[K]) groupOf(e *entry[K]) uint32 {
	if l.numberOf == nil {
		return onlyGroup
	}
	return e.tag
}

// enter adds one key to the count of the group with this name, and returns the
// tag of the key's entry. In a queue without groups it only returns hash.
func (l *lanes[K]) enter(name string, hash uint32) (tag uint32) {
	if l.numberOf == nil {
		return hash
	}
	g, ok := l.numberOf[name]
	if !ok {
		g = l.groups.take()
		l.groups.value(g).name = name
		l.numberOf[name] = g
	}
	l.groups.value(g).users++
	return g
}

// exit removes one key from the count of the group with this tag. It must not
// be called in a queue without groups.
func (l *lanes[K]) exit(tag uint32) {
	g := l.groups.value(tag)
	g.users--
	if g.users == 0 {
		delete(l.numberOf, g.name)
		l.groups.drop(tag)
	}
}

// heads yields, for each group that has keys in a lane, the number of the entry
// of its first key.
func (l *lanes[K]) heads(lane Lane) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		first := l.rings[lane].cursor
		for g := first; g != 0; {
			f := &l.groups.value(g).fifos[lane]
			if g = f.next; !yield(f.head) || g == first {
				return
			}
		}
	}
}
