package informer

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/tools/pager"

	"github.com/homeostat/homeostat/internal/keyspace"
	shardslots "github.com/homeostat/homeostat/internal/slots"
)

// Shards returns the informer's methods for a replica that works on some shards of the keys.
// Package reconcile calls them if Options.Shards is a ranges.Shards.
func (i *Informer[T]) Shards() shardslots.Cache { return shards[T]{i} }

// shards implements [shardslots.Cache].
type shards[T Object] struct{ of *Informer[T] }

// RunShards is [Informer.Run] for a replica that works on shards of the keys: only
// the objects of shards that were added with AddShards are listed, watched
// and cached, and those without a namespace.
//
// An informer is whole all the same while a call of Run is active, and if
// Options.Whole is set, if its kind has no namespaces, if it is made by ForNamespaces,
// or if its client is bound to a namespace or a fake.
//
// joined, which may be nil, is called when it has joined the other calls: from then on
// HasSynced and WaitForSync answer for this one, too.
func (s shards[T]) RunShards(ctx context.Context, joined func()) error {
	return run(ctx, s.of, divided[T]{s.of.feed}.functions(), joined)
}

// RunWhole is [Informer.Run] with joined, as RunShards has it.
func (s shards[T]) RunWhole(ctx context.Context, joined func()) error {
	return run(ctx, s.of, nil, joined)
}

// AddShards makes the cache keep the objects of these shards too, which are ranges of
// the hash of the namespace, until remove is called with them. When it returns, the cache has all
// of them, at least as new as the server was at the call, and every handler has
// received them, as Added. Other shards stay watched, and nothing of them is
// listed again.
//
// remove drops the objects that no other call keeps, and returns then. They are delivered
// as Deleted: before remove returns, unless handlers are called by another goroutine, which
// then does it. AddShards and remove must not be called by a handler.
//
// A server with the feature ShardedListAndWatch sends the objects of the shards only.
// Objects of other shards that another server sends are left out before they are
// decoded, if the client is a generated one of a built-in kind, and otherwise before
// they are stored.
//
// Errors: ranges of another field than object.metadata.namespace; an informer that is
// not running; that of ctx. Failed requests are logged and repeated.
func (s shards[T]) AddShards(
	ctx context.Context, shards ...sharding.ShardRangeRequirement,
) (remove func(shards ...sharding.ShardRangeRequirement), err error) {
	set, err := setOf(shards)
	var removeSet func(keyspace.Set)
	if err == nil {
		removeSet, err = s.of.feed.addShards(ctx, set)
	}
	if err != nil {
		return nil, fmt.Errorf("adding shards to the informer of %s: %w", s.of.Name(), err)
	}
	return func(shards ...sharding.ShardRangeRequirement) {
		if of, err := setOf(shards); err == nil {
			removeSet(of)
		}
	}, nil
}

// setOf returns the union of shards.
//
// Errors: all requirements that are no range of the hash of the namespace, joined.
func setOf(shards []sharding.ShardRangeRequirement) (set keyspace.Set, err error) {
	for _, requirement := range shards {
		r, ok, wrong := keyspace.Parse(keyspace.Requirement(requirement))
		if err = errors.Join(err, wrong); ok {
			set = keyspace.Union(set, keyspace.Set{r})
		}
	}
	return set, err
}

// CountNamespaces returns how many objects the server has in each namespace. It lists
// them page by page and retains none.
func (s shards[T]) CountNamespaces(ctx context.Context) (map[string]int, error) {
	i := s.of
	counts := map[string]int{}
	for _, from := range i.feed.currentSources() {
		if from.list == nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), errWrapped)
		}
		options := metav1.ListOptions{LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector}
		if err := pager.New(from.list).EachListItem(ctx, options, func(obj runtime.Object) error {
			if object, ok := obj.(T); ok {
				counts[object.GetNamespace()]++
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), err)
		}
	}
	return counts, nil
}
