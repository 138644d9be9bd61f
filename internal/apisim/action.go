package apisim

import (
	"cmp"
	"fmt"
	"strings"
)

// ActionKind is the kind of an action.
type ActionKind uint8

// The kinds of actions, in the order in which [Benign] prefers them.
const (
	Deliver  ActionKind = iota // a watch delivers its next event to its client
	Commit                     // a late call is executed
	Release                    // a parked call is served
	Work                       // a step of the workload
	Bookmark                   // a watch receives a bookmark
	Chaos                      // an extra action that benign runs do not take
)

var kindNames = [...]string{"deliver", "late", "call", "work", "bookmark", "chaos"}

func (k ActionKind) String() string { return kindNames[k] }

// Action is one action that the scheduler can take next.
type Action struct {
	Kind ActionKind
	// Call is the parked or late call, or the call that opened the watch of a
	// delivery or bookmark. It is the zero Call for a step of the workload and
	// for chaos.
	Call Call

	name  string
	order string
	call  *parked
	watch *watcher
	extra *Extra
}

func (a Action) String() string {
	if a.watch == nil {
		return a.Kind.String() + " " + a.name
	}
	a.watch.server.mu.Lock()
	defer a.watch.server.mu.Unlock()
	return a.Kind.String() + " " + a.watch.label()
}

// WatchID identifies the watch of a delivery or bookmark. It is 0 for other
// actions.
func (a Action) WatchID() int {
	if a.watch == nil {
		return 0
	}
	return a.watch.id
}

// Distinction returns a text, such as "labels a=b", that distinguishes the
// watch of a delivery or bookmark from other watches of the same client and
// resource. It returns "" if the client has no other watch of the resource, and
// for other actions.
func (a Action) Distinction() string {
	if a.watch == nil {
		return ""
	}
	w := a.watch
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	siblings, equals, number := 0, 1, 1
	for _, o := range w.server.watches {
		if o == w || o.ended || o.table != w.table || o.call.Client != w.call.Client {
			continue
		}
		siblings++
		if o.selection() == w.selection() {
			equals++
			if o.id < w.id {
				number++
			}
		}
	}
	switch {
	case siblings == 0:
		return ""
	case equals > 1:
		return fmt.Sprintf("%s, %d of %d", w.selection(), number, equals)
	}
	return w.selection()
}

// CallID identifies a parked or late call. It is 0 for other actions.
func (a Action) CallID() int {
	if a.call == nil {
		return 0
	}
	return a.call.id
}

// Request returns the request of a parked or late call: the caller, the object
// and the body. It returns "" for other actions.
func (a Action) Request() string {
	if a.call == nil {
		return ""
	}
	return a.call.name + "\n" + string(a.call.req.body)
}

// Caller returns the location in the program under test, as file:line, from
// which a parked or late call was made. It returns "" if the location is not
// known, and for other actions.
func (a Action) Caller() string {
	if a.call == nil {
		return ""
	}
	return callerOf(a.call.stack)
}

func compareActions(a, b Action) int {
	if c := cmp.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	if a.watch != nil {
		return cmp.Compare(a.watch.id, b.watch.id)
	}
	if c := strings.Compare(a.name, b.name); c != 0 {
		return c
	}
	return strings.Compare(a.order, b.order)
}

// Extra is an action that a scenario adds, such as a step of its workload, a
// crash, or a competing write.
type Extra struct {
	Name string
	// Enabled reports whether the action can be taken now. nil means always.
	Enabled func() bool
	// Do takes the action in the scheduler's goroutine. It may use the admin
	// client, and must not wait for gated calls.
	Do func()
	// Chaos marks an action that only random policies take, and that does not
	// keep a run from being quiescent.
	Chaos bool
	// Once removes the action after it was taken.
	Once bool
}

// selection returns a text with the selectors of the watch, such as "namespace
// n, labels a=b", or "all" if there are no selectors.
func (w *watcher) selection() string {
	var parts []string
	if w.match.namespace != "" {
		parts = append(parts, "namespace "+w.match.namespace)
	}
	if w.match.labels != nil && !w.match.labels.Empty() {
		parts = append(parts, "labels "+w.match.labels.String())
	}
	for _, f := range w.match.fields {
		parts = append(parts, fmt.Sprintf("%s%s%s", f.Field, f.Operator, f.Value))
	}
	if w.match.selector != "" {
		parts = append(parts, "a shard")
	}
	if w.metadataOnly {
		parts = append(parts, "metadata only")
	}
	return cmp.Or(strings.Join(parts, ", "), "all")
}

// label returns a text with the watch and its next event, such as "web#1 watch
// 3 pods ADDED 17 default/a". If no event is pending, the text ends with the
// server's version, such as "version 17".
func (w *watcher) label() string {
	event := "version " + formatVersion(w.server.version)
	if len(w.pending) > 0 {
		d := w.pending[0]
		event = string(d.typ) + " " + formatVersion(d.version)
		if d.obj != nil {
			event += " " + d.obj.key.String()
		}
	}
	return fmt.Sprintf("%s#%d watch %d %s %s", w.call.Client, w.call.Incarnation, w.id, w.call.Resource.Resource, event)
}
