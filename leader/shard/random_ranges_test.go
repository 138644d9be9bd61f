package shard_test

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader/shard"
)

const (
	rangedSlots  = 24
	rangedPlaces = 120
)

// placeNames returns namespaces whose hashes are spread evenly.
func placeNames() (names []string) {
	for n := range rangedPlaces {
		names = append(names, fmt.Sprintf("%x", uint64(n+1)*0x9e3779b97f4a7c15))
	}
	return names
}

// counted is a cache that only knows the number of its objects, by namespace.
type counted struct {
	slots.Cache
	objects func() map[string]int
}

func (counted) SeenResourceVersion() string { return "1" }

func (c counted) CountNamespaces(context.Context) (map[string]int, error) { return c.objects(), nil }

// restartedRanges are the ranges of a world in which all replicas stop from
// time to time, so that ranges are chosen anew. The objects change all the
// time.
type restartedRanges struct {
	names []string

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	ranges string // the last recorded ranges
}

func newRestartedRanges() *restartedRanges {
	return &restartedRanges{names: placeNames(), random: rand.New(rand.NewSource(1))}
}

// placesOf returns the namespaces that a replica has in a slot.
func (c *restartedRanges) placesOf(s *shard.Shards, slot int) (places []int) {
	for n, name := range c.names {
		if s.Slot(types.NamespacedName{Namespace: name}) == slot {
			places = append(places, n)
		}
	}
	return places
}

// objects returns different objects at each call.
func (c *restartedRanges) objects() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := map[string]int{}
	for _, name := range c.names {
		objects[name] = c.random.Intn(100)
	}
	return objects
}

// written is called when a record was written, and notices new ranges.
func (c *restartedRanges) written(w *world, l *coordinationv1.Lease) {
	ranges := l.Annotations["leader.homeostat.dev/ranges"]
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Name == "test" && ranges != c.ranges {
		w.step("choices of ranges")
		c.ranges = ranges
	}
}

// live runs one fleet of replicas after the other until ctx ends.
func (c *restartedRanges) live(ctx context.Context, w *world) {
	for ctx.Err() == nil {
		fleet, stop := context.WithTimeout(ctx, time.Minute+w.chance(2*time.Minute))
		var done sync.WaitGroup
		for n := range worldReplicas {
			r := &resident{world: w, name: fmt.Sprint("r", n)}
			done.Go(func() { r.live(fleet) })
		}
		done.Wait()
		stop()
		w.step("fleets")
	}
}

// TestRangesOfFleetsKeepThePromisesOfShards runs worlds whose ranges are chosen
// anew whenever all replicas have stopped.
func TestRangesOfFleetsKeepThePromisesOfShards(t *testing.T) {
	worlds(t, newRestartedRanges, "fleets", "choices of ranges")
}
