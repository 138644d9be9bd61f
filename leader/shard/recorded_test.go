package shard_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

// Replicas of different builds run together during an update. They must record
// the same words and agree on the slots of keys.
func TestTheConfigurationIsRecordedAsOtherBuildsReadIt(t *testing.T) {
	const hash = "fnv1a-64+fmix64"
	for name, c := range map[string]struct {
		of       func(x *fixture) *shard.Shards
		recorded map[string]string // without their prefix
		slots    []int
	}{
		"by namespace": {
			func(x *fixture) *shard.Shards { return newShards(x.T, x.API.Link(1), "a", nil) },
			map[string]string{"slots": "64", "by": "namespace", "hash": hash},
			[]int{25, 25, 21, 17, 38},
		},
		"by key": {
			func(x *fixture) *shard.Shards {
				return newShards(x.T, x.API.Link(1), "a", &shard.Options{By: shard.ByKey, Slots: 1024})
			},
			map[string]string{"slots": "1024", "by": "namespace/name", "hash": hash},
			[]int{401, 142, 918, 911, 516},
		},
		"ranges": {
			func(x *fixture) *shard.Shards {
				r, err := ranges.New(leaseOf(x.API.Link(1), "a"), &shard.Options{Slots: 4})
				x.Expect(err).NotTo(HaveOccurred())
				return r.Shards
			},
			map[string]string{
				"slots": "4", "by": "range of namespaces", "hash": "fnv1a-64", "heavy": "null",
				"ranges": "0:0 4000000000000000:0 8000000000000000:0 c000000000000000:0",
			},
			[]int{3, 3, 1, 0, 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				s := c.of(x)
				stop := x.Run(func(ctx context.Context) error { return s.Run(ctx, x.Work("a", 0)) })
				pass(10 * time.Second)
				config, err := x.API.Get("test")
				x.Expect(err).NotTo(HaveOccurred())
				recorded := map[string]string{}
				for key, text := range c.recorded {
					recorded["leader.homeostat.dev/"+key] = text
				}
				entered := config.Annotations["leader.homeostat.dev/entered"]
				delete(config.Annotations, "leader.homeostat.dev/entered")
				delete(config.Annotations, "leader.homeostat.dev/division") // is random
				x.Expect(entered).To(Or(BeEmpty(), MatchRegexp(`^a_.*\.1$`)))
				x.Expect(config.Annotations).To(Equal(recorded))
				x.Expect(config.Labels).To(Equal(map[string]string{
					"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "config",
				}))
				var slots []int
				for _, key := range []types.NamespacedName{
					{Namespace: "team-1", Name: "a"},
					{Namespace: "team-1", Name: "b"},
					{Namespace: "monitoring", Name: "a"},
					{Namespace: "db", Name: "a"},
					{Name: "a"},
				} {
					slots = append(slots, s.Slot(key))
				}
				x.Expect(slots).To(Equal(c.slots))
				stop()
			})
		})
	}
}
