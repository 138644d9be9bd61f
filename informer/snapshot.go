package informer

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/intern"
)

// Snapshot is the content of an informer's cache at one moment. It does not
// change while the cache does, and keeps its objects in memory for as long as
// it is retained.
//
// Iteration is sorted by namespace and name and allocates no memory. Objects
// are shared with every reader; do not modify them. It is safe for concurrent
// use.
//
// Two snapshots of one informer are equal (==) only if the cache has not
// changed between them. So snapshots of several informers show the same moment
// if the first ones are still the newest after the last one has been taken:
//
//	n, p := nodes.Snapshot(), pods.Snapshot()
//	for n != nodes.Snapshot() {
//		n, p = nodes.Snapshot(), pods.Snapshot()
//	}
type Snapshot[T Object] struct{ state *state[T] }

// Get returns the object of key as of the snapshot, and whether there was one.
// The object is shared; do not modify it. Get searches a tree, and so takes
// longer than [Informer.Get].
func (s Snapshot[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if item := s.root().Get(key); item != nil {
		return item.Object, true
	}
	return object, false
}

// Len returns the number of objects.
func (s Snapshot[T]) Len() int {
	if s.state == nil {
		return 0
	}
	return s.state.count
}

// All returns an iterator over all objects. An iteration may be stopped early,
// and repeated.
func (s Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { s.root().All(yield) }
}

// Namespace returns an iterator over the objects of one namespace. Unlike in
// Select, "" means the cluster-scoped objects instead of all objects.
func (s Snapshot[T]) Namespace(name string) iter.Seq[T] {
	return func(yield func(T) bool) { s.root().Namespace(name, yield) }
}

// Select returns an iterator over the objects of a namespace ("" for all
// namespaces) that match selector:
//
//	web := labels.SelectorFromSet(labels.Set{"app": "web"})
//	for pod := range pods.Snapshot().Select("default", web) { … }
//
// A nil selector matches no object, as a null metav1.LabelSelector does;
// labels.Everything() matches all objects.
//
// If selector requires a single value for one of Options.IndexLabels, only the
// objects with that value are matched against the rest of it. Otherwise all
// objects of the namespace are matched. Select allocates no memory, unless the
// GetLabels method of the objects does, as with unstructured objects.
func (s Snapshot[T]) Select(namespace string, selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		if selector == nil {
			return
		}
		root, exact := s.narrowest(selector)
		match := func(object T) bool {
			return !exact && !selector.Matches(labels.Set(object.GetLabels())) || yield(object)
		}
		if namespace == "" {
			root.All(match)
		} else {
			root.Namespace(namespace, match)
		}
	}
}

// narrowest returns a tree that contains all objects that match selector, and
// whether it is known to contain no others. It is the smallest such tree in the
// index of labels, or the tree of all objects.
func (s Snapshot[T]) narrowest(selector labels.Selector) (root *tree.Node[T], exact bool) {
	root, count := s.root(), s.Len()
	if s.state == nil {
		return root, false
	}
	for _, key := range s.state.labels {
		if value, ok := selector.RequiresExactMatch(key); ok {
			if p := s.state.indexes[0].(*tree.Postings[T, label]).Get(label{key, value}); p.Count <= count {
				root, count = p.Root, p.Count
				requirements, _ := selector.Requirements()
				exact = len(requirements) == 1 // the one that the index answers
			}
		}
	}
	return root, exact
}

func (s Snapshot[T]) root() *tree.Node[T] {
	if s.state == nil {
		return nil
	}
	return s.state.root
}

// state is the content of the store at one moment, including its indexes. It is
// immutable once it is published.
type state[T Object] struct {
	root  *tree.Node[T]
	count int
	// labels are Options.IndexLabels. If there are any, the first index is the
	// index of these labels.
	labels  []string
	indexes []tree.Index[T]
}

// apply returns the state after c, a change for which matters returns true. It
// does not modify s.
func (s *state[T]) apply(c tree.Change[T]) *state[T] {
	next := *s
	if c.New == nil {
		next.root = s.root.Without(c.Old.Key)
		next.count--
	} else if next.root = s.root.Swap(c.Old, c.New); next.root == nil {
		next.root = s.root.With(c.New)
		if c.Old == nil {
			next.count++
		}
	}
	next.reindex([]tree.Change[T]{c})
	return &next
}

// reindex applies changes to the indexes of s. It must be called before s is
// published.
func (s *state[T]) reindex(changes []tree.Change[T]) {
	indexes := s.indexes
	s.indexes = make([]tree.Index[T], len(indexes))
	for n, x := range indexes {
		s.indexes[n] = x.After(changes)
	}
}

// replaced returns what the state contains after items, in sorted order, have
// become the whole content of the namespaces that isListed selects. It also
// returns the changes that lead there. It keeps the items of s whose objects
// have not changed, except after a restore of the server, when an equal
// resourceVersion does not prove an equal object. It does not modify s.
func (s *state[T]) replaced(
	isListed func(string) bool, items []*tree.Item[T], occasion versions.Occasion,
) (result []*tree.Item[T], changes []tree.Change[T]) {
	var olds []*tree.Item[T]
	result = make([]*tree.Item[T], 0, len(items))
	for _, item := range s.root.AppendItems(make([]*tree.Item[T], 0, s.count)) {
		if isListed(item.Key.Namespace) {
			olds = append(olds, item)
		} else {
			result = append(result, item)
		}
	}
	kept := len(result)
	for len(olds) > 0 || len(items) > 0 {
		var c tree.Change[T]
		switch {
		case len(items) > 1 && items[0].Key == items[1].Key:
			items = items[1:]
			continue
		case len(items) == 0 || len(olds) > 0 && tree.CompareKeys(olds[0].Key, items[0].Key) < 0:
			c.Old, olds = olds[0], olds[1:]
		case len(olds) == 0 || tree.CompareKeys(items[0].Key, olds[0].Key) < 0:
			c.New, items = items[0], items[1:]
		default:
			c, olds, items = tree.Change[T]{Old: olds[0], New: items[0]}, olds[1:], items[1:]
		}
		switch {
		case occasion != versions.RestoredList && !matters(c):
			result = append(result, c.Old)
			continue
		case c.New != nil:
			result = append(result, c.New)
		}
		changes = append(changes, c)
	}
	if kept > 0 {
		tree.Sort(result)
	}
	return result, changes
}

func itemOf[T Object](object T) *tree.Item[T] {
	return &tree.Item[T]{Key: bound.KeyOf(object), Object: object}
}

// size estimates the memory of the objects of s. It measures a few groups of
// neighbours, because neighbours share the most.
func (s *state[T]) size() int64 {
	const groups, group = 8, 48
	step, measured := max(group, s.count/groups), 0
	position := step / 2
	size := intern.Size(func(yield func(T) bool) {
		s.root.All(func(object T) bool {
			if position++; position%step >= group {
				return true
			}
			measured++
			return yield(object)
		})
	})
	return size * int64(s.count) / int64(max(1, measured))
}

func everywhere(string) bool { return true }

// label is a value of the index of Options.IndexLabels.
type label struct{ key, value string }

func labelsOf[T Object](keys []string) func(T) []label {
	return func(object T) []label {
		var found []label
		labels := object.GetLabels()
		for _, key := range keys {
			if value, ok := labels[key]; ok {
				found = append(found, label{key, value})
			}
		}
		return found
	}
}

// Index finds objects in an informer's cache by values that a function computes
// from them. It is updated in the same step as the cache.
//
// Iteration is sorted by namespace and name and allocates no memory. Objects
// are shared with every reader; do not modify them. It is safe for concurrent
// use.
type Index[T Object, V comparable] struct {
	store *store[T]
	// number is the position of the index among the indexes of a state.
	number int
}

// NewIndex adds an index to i:
//
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	for pod := range byNode.Get("node-1") { … }
//
// The values must depend on the object alone. An object for which valuesOf
// returns nil is not in the index, and neither is a value that is not equal to
// itself, such as NaN. An object is unreadable if one of its values cannot be
// the key of a map, such as a list in an index by any. valuesOf is called for
// each change. It must not block, modify the object or end its goroutine;
// otherwise the cache does not sync. Cached objects are indexed before NewIndex
// returns, while changes wait. An index cannot be removed.
func NewIndex[T Object, V comparable](i *Informer[T], valuesOf func(T) []V) *Index[T, V] {
	return &Index[T, V]{i.store, i.store.addIndex(func(known []tree.Change[T]) tree.Index[T] {
		return tree.NewPostings(valuesOf).After(known)
	})}
}

// Get returns an iterator over the objects that have value when the iteration
// begins. If it is used several times, each iteration reads the newest state.
func (x *Index[T, V]) Get(value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.postings(x.store.latest.Load(), value).Root.All(yield) }
}

// In returns an iterator over the objects of a snapshot that have value. The
// iterator yields nothing if the snapshot is older than the index.
func (x *Index[T, V]) In(s Snapshot[T], value V) iter.Seq[T] {
	return func(yield func(T) bool) { x.postings(s.state, value).Root.All(yield) }
}

// Len returns the number of objects in the cache that have value.
func (x *Index[T, V]) Len(value V) int { return x.postings(x.store.latest.Load(), value).Count }

func (x *Index[T, V]) postings(s *state[T], value V) tree.Posting[T] {
	if s == nil || x.number >= len(s.indexes) {
		return tree.Posting[T]{}
	}
	p, _ := s.indexes[x.number].(*tree.Postings[T, V])
	return p.Get(value)
}
