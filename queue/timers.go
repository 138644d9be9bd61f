package queue

// timers is a heap of timers, the earliest on top, in which each node has four
// children. Deletion is lazy: a node whose entry was rescheduled is stale, and
// is skipped when it is popped. Therefore moving nodes touches only the heap,
// not the entries.
type timers struct {
	nodes []timerNode
	added uint32
	stale int
}

// timerNode is one timer. Of two timers with the same time, the one added first
// is popped first.
type timerNode struct {
	due   int64
	entry uint32
	order uint32
}

func (a timerNode) before(b timerNode) bool {
	return a.due < b.due || a.due == b.due && int32(a.order-b.order) < 0 //nolint:gosec // wraps around on purpose
}

func (t *timers) push(due int64, entry uint32) {
	added := timerNode{due: due, entry: entry, order: t.added}
	t.added++
	t.nodes = append(t.nodes, added)
	i := len(t.nodes) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !added.before(t.nodes[parent]) {
			break
		}
		t.nodes[i] = t.nodes[parent]
		i = parent
	}
	t.nodes[i] = added
}

// pop removes the earliest timer and returns it. The heap must not be empty.
func (t *timers) pop() timerNode {
	top := t.nodes[0]
	last := len(t.nodes) - 1
	moved := t.nodes[last]
	t.nodes = t.nodes[:last]
	if last > 0 {
		t.sift(0, moved)
	} else if cap(t.nodes) > keptChunks*chunkSize {
		t.nodes = nil // the memory of a burst
	}
	return top
}

// sift puts node into the hole i and moves it down to its place.
func (t *timers) sift(i int, node timerNode) {
	nodes := t.nodes
	for {
		first := 4*i + 1
		if first >= len(nodes) {
			break
		}
		earliest := first
		for c := first + 1; c < min(first+4, len(nodes)); c++ {
			if nodes[c].before(nodes[earliest]) {
				earliest = c
			}
		}
		if !nodes[earliest].before(node) {
			break
		}
		nodes[i] = nodes[earliest]
		i = earliest
	}
	nodes[i] = node
}

// next returns when the earliest timer fires, or 0 if there are no timers.
func (t *timers) next() int64 {
	if len(t.nodes) == 0 {
		return 0
	}
	return t.nodes[0].due
}

// expire records that one more node has become stale. It removes the stale
// nodes if there are many. current reports whether a node is not stale.
func (t *timers) expire(current func(timerNode) bool) {
	t.stale++
	t.sweep(current)
}

// sweep removes the nodes for which current returns false, once there are many
// of them and they are at least half of all nodes.
func (t *timers) sweep(current func(timerNode) bool) {
	if t.stale < chunkSize || t.stale < len(t.nodes)/2 {
		return
	}
	kept := t.nodes[:0]
	for _, n := range t.nodes {
		if current(n) {
			kept = append(kept, n)
		}
	}
	t.nodes, t.stale = kept, 0
	for i := (len(kept) - 2) / 4; i >= 0 && len(kept) > 1; i-- {
		t.sift(i, kept[i])
	}
}
