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
	Deliver  ActionKind = iota // the next event of a watch goes to its client
	Commit                     // a late call is carried out
	Release                    // a parked call is served
	Work                       // a step of the workload
	Bookmark                   // a watch gets a bookmark
	Chaos                      // an extra action that no benign run takes
)

var kindNames = [...]string{"deliver", "late", "call", "work", "bookmark", "chaos"}

func (k ActionKind) String() string { return kindNames[k] }

// Action is one thing that can happen next.
type Action struct {
	Kind ActionKind
	// Call of the caller, or of the watch that an event goes to; zero for work and chaos.
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

// WatchID identifies the watch of a delivery; 0 for other actions.
func (a Action) WatchID() int {
	if a.watch == nil {
		return 0
	}
	return a.watch.id
}

// Among tells the watch of a delivery from others of the same client and resource, for example "labels a=b"; "" if
// there is no other one.
func (a Action) Among() string {
	if a.watch == nil {
		return ""
	}
	w := a.watch
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	others, same, number := 0, 1, 1
	for _, o := range w.server.watches {
		if o == w || o.ended || o.table != w.table || o.call.Client != w.call.Client {
			continue
		}
		others++
		if o.words() == w.words() {
			same++
			if o.id < w.id {
				number++
			}
		}
	}
	switch {
	case others == 0:
		return ""
	case same > 1:
		return fmt.Sprintf("%s, %d of %d", w.words(), number, same)
	}
	return w.words()
}

// CallID identifies a parked call; 0 for other actions.
func (a Action) CallID() int {
	if a.call == nil {
		return 0
	}
	return a.call.id
}

// Request is the request of a parked call: the caller, the object and the body; "" for other actions.
func (a Action) Request() string {
	if a.call == nil {
		return ""
	}
	return a.call.name + "\n" + string(a.call.req.body)
}

// Caller is the place in the program under test, file:line, that made a parked call; "" when it is not known.
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

// Extra is an action that a scenario adds: a step of its workload, a crash, a rival's write.
type Extra struct {
	Name string
	// Enabled reports whether it can happen now; nil: always.
	Enabled func() bool
	// Do runs in the scheduler's goroutine. It may use the admin client; it must not wait for gated calls.
	Do func()
	// Chaos actions are taken by random policies only and do not keep a run from being quiescent.
	Chaos bool
	// Once removes the action after it ran.
	Once bool
}

// label names the watch and its next event.
// words describe what the watch selects.
func (w *watcher) words() string {
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

func (w *watcher) label() string {
	what := "version " + formatVersion(w.server.version)
	if len(w.pending) > 0 {
		d := w.pending[0]
		what = string(d.typ) + " " + formatVersion(d.version)
		if d.obj != nil {
			what += " " + d.obj.key.String()
		}
	}
	return fmt.Sprintf("%s#%d watch %d %s %s", w.call.Client, w.call.Incarnation, w.id, w.call.Resource.Resource, what)
}
