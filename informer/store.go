package informer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/intern"
)

// A state is what the store holds at one moment, indexes included. It never
// changes.
type state[T Object] struct {
	root    *node[T]
	count   int
	indexes []index[T]
	labels  *postings[T, label] // nil without Options.IndexLabels
	indexed []string            // Options.IndexLabels
}

// state is the newest one.
func (i *Informer[T]) state() *state[T] { return i.latest.Load().state() }

// A change of one object: old is nil when it was not known, it when it is gone.
type change[T Object] struct{ old, it *item[T] }

func itemOf[T Object](object T) *item[T] {
	return &item[T]{key: keyOf(object), object: object}
}

// put stores one object and hands the change on.
func (i *Informer[T]) put(it *item[T]) {
	i.learnKind(it.object)
	i.writing.Lock()
	current := i.state()
	c := change[T]{i.newest.get(it.key), it}
	if !c.matters() {
		i.writing.Unlock()
		return
	}
	i.detector.note(i, c) // before others have the object
	i.newest.put(it)
	i.publish(current.then(c), batch[T]{events: c.events(nil)})
	i.writing.Unlock()
	i.deliver()
	i.state() // before the next change, which begins with it
}

// drop removes one object, of which last is the final state.
func (i *Informer[T]) drop(last T) {
	key := itemOf(last).key
	i.writing.Lock()
	current := i.state()
	c := change[T]{old: current.root.get(key)}
	if c.old == nil {
		i.writing.Unlock()
		return
	}
	if c.old.object.GetUID() != last.GetUID() {
		last = c.old.object
	}
	i.newest.remove(key)
	i.detector.note(i, c)
	i.publish(current.then(c), batch[T]{events: []Event[T]{{Old: last, Type: Deleted}}})
	i.writing.Unlock()
	i.deliver()
	i.state()
}

// after returns s after a change that matters.
func (s *state[T]) after(c change[T]) *state[T] {
	next := *s
	if c.it == nil {
		next.root = s.root.without(c.old.key)
		next.count--
	} else if next.root = s.root.swap(c.old, c.it); next.root == nil {
		next.root = s.root.with(c.it)
		if c.old == nil {
			next.count++
		}
	}
	if s.labels != nil || len(s.indexes) > 0 {
		next.reindex([]change[T]{c})
	}
	return &next
}

// reindex brings the indexes of s, which nobody else knows yet, up to date.
func (s *state[T]) reindex(changes []change[T]) {
	if s.labels != nil {
		s.labels = s.labels.apply(changes)
	}
	indexes := s.indexes
	s.indexes = make([]index[T], len(indexes))
	for n, x := range indexes {
		s.indexes[n] = x.after(changes)
	}
}

// replace makes items the whole content of namespace ("" for all), hands on
// what that changes, and then calls done.
func (i *Informer[T]) replace(namespace string, items []*item[T], initial bool, done func()) {
	for _, it := range items {
		i.learnKind(it.object)
	}
	sortItems(items)

	i.writing.Lock()
	i.settle(namespace, items, initial, done)
	i.writing.Unlock()
	i.deliver()
}

// settle publishes the state in which items, which are in order, are the whole
// content of namespace. The caller holds writing.
func (i *Informer[T]) settle(namespace string, items []*item[T], initial bool, done func()) {
	all, changes := i.state().replaced(namespace, items)
	next := *i.state()
	next.root, next.count = build(all), len(all)
	next.reindex(changes)
	i.detector.note(i, changes...) // before others have the objects
	i.newest.fill(all)
	events := make([]Event[T], 0, len(changes))
	for _, c := range changes {
		events = c.events(events)
	}
	if initial {
		for n := range events {
			events[n].Initial = events[n].Type == Added
		}
	}
	i.publish(versionOf(&next), batch[T]{events: events, done: done})
}

// replaced returns all items when items, which are in order, become the whole
// content of namespace, and what that changes. Objects that are the same stay.
func (s *state[T]) replaced(namespace string, items []*item[T]) (all []*item[T], changes []change[T]) {
	var before []*item[T]
	all = make([]*item[T], 0, len(items))
	for _, it := range s.root.appendItems(make([]*item[T], 0, s.count)) {
		if namespace == "" || it.key.Namespace == namespace {
			before = append(before, it)
		} else {
			all = append(all, it)
		}
	}
	others := len(all)
	for len(before) > 0 || len(items) > 0 {
		var c change[T]
		switch {
		case len(items) > 1 && items[0].key == items[1].key:
			items = items[1:]
			continue
		case len(items) == 0 || len(before) > 0 && compareKeys(before[0].key, items[0].key) < 0:
			c.old, before = before[0], before[1:]
		case len(before) == 0 || compareKeys(items[0].key, before[0].key) < 0:
			c.it, items = items[0], items[1:]
		default:
			c, before, items = change[T]{before[0], items[0]}, before[1:], items[1:]
		}
		switch {
		case !c.matters():
			all = append(all, c.old)
			continue
		case c.it != nil:
			all = append(all, c.it)
		}
		changes = append(changes, c)
	}
	if others > 0 {
		sortItems(all)
	}
	return all, changes
}

// matters tells whether anything has changed. Only fakes leave the
// resourceVersion empty.
func (c change[T]) matters() bool {
	if c.old == nil || c.it == nil {
		return true
	}
	a, b := c.old.object, c.it.object
	if a.GetUID() != b.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		return true
	}
	return a.GetResourceVersion() == "" && (intern.Lazy(b) || !intern.Alike(a, b))
}

// events appends the events of a change that matters: two when another object
// has taken the name.
func (c change[T]) events(to []Event[T]) []Event[T] {
	switch {
	case c.old == nil:
		return append(to, Event[T]{New: c.it.object, Type: Added})
	case c.it == nil:
		return append(to, Event[T]{Old: c.old.object, Type: Deleted})
	case c.old.object.GetUID() != c.it.object.GetUID():
		return append(to, Event[T]{Old: c.old.object, Type: Deleted}, Event[T]{New: c.it.object, Type: Added})
	default:
		return append(to, Event[T]{Old: c.old.object, New: c.it.object, Type: Updated})
	}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
