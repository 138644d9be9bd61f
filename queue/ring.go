package queue

// A group is the keys that share a turn inside each lane.
type group struct {
	name  string
	users int // entries that name this group
	fifos [lanes]fifo
}

// A fifo is the waiting keys of one group in one lane, and its place among the
// groups that have any.
type fifo struct {
	head, tail uint32
	next, prev uint32
}

// A ring is the groups with waiting keys of one lane, which take turns.
type ring struct {
	cursor  uint32 // the group whose turn is next, 0 if none
	waiting int
	skipped int // hand-outs from other lanes since the last from this one
}

// push puts e, entry n, linked nowhere, at the end of its lane.
func (q *Queue[K]) push(n uint32, e *record[K]) {
	r, f := &q.rings[e.lane], &q.groups.at(q.groupOf(e)).fifos[e.lane]
	e.prev, e.next = f.tail, 0
	if f.tail != 0 {
		q.at(f.tail).next = n
	} else {
		f.head = n
		q.join(e.lane, q.groupOf(e))
	}
	f.tail = n
	r.waiting++
	q.ready++
}

// unlink takes e out of its lane.
func (q *Queue[K]) unlink(e *record[K]) {
	f := &q.groups.at(q.groupOf(e)).fifos[e.lane]
	if e.prev != 0 {
		q.at(e.prev).next = e.next
	} else {
		f.head = e.next
	}
	if e.next != 0 {
		q.at(e.next).prev = e.prev
	} else {
		f.tail = e.prev
	}
	if f.head == 0 {
		q.leave(e.lane, q.groupOf(e))
	}
	q.rings[e.lane].waiting--
	q.ready--
}

// join puts a group at the end of the round of a lane.
func (q *Queue[K]) join(l Lane, g uint32) {
	r, f := &q.rings[l], &q.groups.at(g).fifos[l]
	if r.cursor == 0 {
		r.cursor, f.next, f.prev = g, g, g
		return
	}
	first := &q.groups.at(r.cursor).fifos[l]
	f.next, f.prev = r.cursor, first.prev
	q.groups.at(first.prev).fifos[l].next = g
	first.prev = g
}

// leave takes a group out of the round of a lane.
func (q *Queue[K]) leave(l Lane, g uint32) {
	r, f := &q.rings[l], &q.groups.at(g).fifos[l]
	if f.next == g {
		r.cursor = 0
		return
	}
	q.groups.at(f.prev).fifos[l].next = f.next
	q.groups.at(f.next).fifos[l].prev = f.prev
	if r.cursor == g {
		r.cursor = f.next
	}
}

// pop unlinks and returns the entry whose turn it is; there must be one.
func (q *Queue[K]) pop() (n uint32, e *record[K]) {
	l := q.choose()
	r := &q.rings[l]
	if q.ready > r.waiting {
		for other := range q.rings {
			if q.rings[other].waiting > 0 {
				q.rings[other].skipped++
			}
		}
	}
	r.skipped = 0
	r.waiting--
	q.ready--
	g := r.cursor
	f := &q.groups.at(g).fifos[l]
	r.cursor = f.next
	n = f.head
	e = q.at(n)
	if f.head = e.next; f.head == 0 {
		f.tail = 0
		q.leave(l, g)
	} else {
		q.at(f.head).prev = 0
	}
	return n, e
}

// choose returns the lane whose turn it is: the highest, unless a lower one has
// been passed over for as long as its share allows. Background is due one
// hand-out early, since Retrying may be due at the same time.
func (q *Queue[K]) choose() Lane {
	live, retrying, background := &q.rings[Live], &q.rings[Retrying], &q.rings[Background]
	switch {
	case live.waiting == q.ready:
		return Live
	case retrying.waiting > 0 && retrying.skipped >= retryingShare-1:
		return Retrying
	case background.waiting > 0 && background.skipped >= backgroundShare-2:
		return Background
	case live.waiting > 0:
		return Live
	case retrying.waiting > 0:
		return Retrying
	default:
		return Background
	}
}

// groupOf returns the number of the group of e.
func (q *Queue[K]) groupOf(e *record[K]) uint32 {
	if q.options.Group == nil {
		return everybody
	}
	return e.tag
}

// enter counts one more key in the group of that name, and returns the tag of
// the key.
func (q *Queue[K]) enter(name string, hash uint32) uint32 {
	if q.options.Group == nil {
		return hash
	}
	g, ok := q.numberOf[name]
	if !ok {
		g = q.groups.take()
		q.groups.at(g).name = name
		q.numberOf[name] = g
	}
	q.groups.at(g).users++
	return g
}

// exit is the end of what enter began. It returns the hash of the key.
func (q *Queue[K]) exit(e *record[K]) uint32 {
	if q.options.Group == nil {
		return e.tag
	}
	g := q.groups.at(e.tag)
	g.users--
	if g.users == 0 {
		delete(q.numberOf, g.name)
		q.groups.drop(e.tag)
	}
	return q.hash(e.key)
}

// everybody is the only group of a queue without groups.
const everybody = 1
