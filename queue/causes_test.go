package queue_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

func because(c queue.Cause) queue.AddOptions { return queue.AddOptions{Cause: c} }

func TestCauses(t *testing.T) {
	pod := queue.Cause{
		Trigger: "pods", Namespace: "default", Name: "web", Type: "updated",
		OldVersion: "41", NewVersion: "57",
	}
	node := queue.Cause{Trigger: "nodes", Name: "node-1", Type: "added", NewVersion: "9"}
	for name, f := range map[string]func(b *fixture){
		"an item without a cause has none": func(b *fixture) {
			b.Add("a")
			b.Expect(b.take().Causes()).To(BeEmpty())
		},
		"an item knows its causes, the oldest first": func(b *fixture) {
			b.AddWithOptions("a", because(pod))
			b.AddWithOptions("a", because(node))
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{pod, node}))
		},
		"changes of one object are merged into one": func(b *fixture) {
			later := pod
			later.Type, later.OldVersion, later.NewVersion = "deleted", "57", "60"
			b.AddWithOptions("a", because(pod))
			b.AddWithOptions("a", because(node))
			b.AddWithOptions("a", because(later))
			merged := pod
			merged.Type, merged.NewVersion, merged.Merged = "deleted", "60", 1
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{merged, node}))
		},
		"the same object by another trigger is another cause": func(b *fixture) {
			other := pod
			other.Trigger = "owned pods"
			b.AddWithOptions("a", because(pod))
			b.AddWithOptions("a", because(other))
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{pod, other}))
		},
		"the list is bounded, and the last counts the rest": func(b *fixture) {
			const more = 5
			for i := range maxCauses + more {
				b.AddWithOptions("a", because(queue.Cause{Trigger: "pods", Name: fmt.Sprint(i)}))
			}
			causes := b.take().Causes()
			b.Expect(causes).To(HaveLen(maxCauses))
			b.Expect(causes[maxCauses-1].Merged).To(Equal(more))
			b.Expect(causes[0].Merged).To(BeZero())
		},
		"what comes while an item is held belongs to the next": func(b *fixture) {
			b.AddWithOptions("a", because(pod))
			item := b.take()
			b.AddWithOptions("a", because(node))
			b.Expect(item.Causes()).To(Equal([]queue.Cause{pod}))
			item.Done()
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{node}))
		},
		"a retry has the causes of the item that failed as well": func(b *fixture) {
			b.AddWithOptions("a", because(pod))
			item := b.take()
			b.AddWithOptions("a", because(node))
			item.Retry()
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{pod, node}))
		},
		"a second look has no causes": func(b *fixture) {
			b.AddWithOptions("a", because(pod))
			b.take().After(time.Second)
			b.Expect(b.take().Causes()).To(BeEmpty())
		},
		"a cancelled timer takes its causes along": func(b *fixture) {
			b.AddWithOptions("a", queue.AddOptions{Cause: pod, After: time.Second})
			b.Cancel("a")
			b.AddWithOptions("a", because(node))
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{node}))
		},
		"a timer that is cancelled while the key is held does, too": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", queue.AddOptions{Cause: pod, After: time.Second})
			b.Cancel("a")
			b.AddWithOptions("a", because(node))
			item.Done()
			b.Expect(b.take().Causes()).To(Equal([]queue.Cause{node}))
		},
		"versions need not be numbers": func(b *fixture) {
			for _, v := range []string{
				"", "0", "007", "x1", "1x", "four", "seven77", "8 bytes.", "9 bytes..", "12345678", "123456789", "0123456789",
				"end\x00", "\x00", "a\x00b", strings.Repeat("9", 19), strings.Repeat("9", 30), strings.Repeat("x", 30),
			} {
				odd := queue.Cause{Trigger: "pods", Name: "web", OldVersion: v, NewVersion: v}
				b.AddWithOptions("a", because(odd))
				item := b.take()
				b.Expect(item.Causes()).To(Equal([]queue.Cause{odd}))
				item.Done()
			}
		},
		"merging may change the kind of version": func(b *fixture) {
			long, opaque := "123456789", "not a number"
			for _, versions := range [][2]string{
				{"1", "x"}, {"x", ""}, {"", "x"}, {"1", long}, {long, "1"}, {"1", opaque}, {opaque, "1"}, {long, opaque}, {opaque, long},
			} {
				for _, v := range versions {
					b.AddWithOptions("a", because(queue.Cause{Trigger: "pods", OldVersion: "0", NewVersion: v}))
				}
				item := b.take()
				b.Expect(item.Causes()).To(Equal([]queue.Cause{
					{Trigger: "pods", OldVersion: "0", NewVersion: versions[1], Merged: 1},
				}))
				item.Done()
			}
		},
		"there may be any number of triggers": func(b *fixture) {
			for i := range 300 {
				c := queue.Cause{Trigger: fmt.Sprintf("trigger-%d", i), Name: "web", NewVersion: "1"}
				b.AddWithOptions("a", because(c))
				item := b.take()
				b.Expect(item.Causes()).To(Equal([]queue.Cause{c}))
				item.Done()
			}
		},
		"Merged may be given, and is bounded": func(b *fixture) {
			many := pod
			many.Merged = 1 << 20
			b.AddWithOptions("a", because(many))
			b.AddWithOptions("a", because(pod))
			b.Expect(b.take().Causes()[0].Merged).To(Equal(1<<16 - 1))
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}

func TestCausesOfTheObjectThatTheKeyNames(t *testing.T) {
	g := NewWithT(t)
	q, err := queue.New[types.NamespacedName](nil)
	g.Expect(err).NotTo(HaveOccurred())
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	own := queue.Cause{Trigger: "pods", Namespace: "default", Name: "web", Type: "added", NewVersion: "12"}
	owned := queue.Cause{Trigger: "pods", Namespace: "default", Name: "web-1", Type: "added", NewVersion: "13"}
	for _, c := range []queue.Cause{own, owned, own, owned} {
		q.AddWithOptions(key, because(c))
	}
	own.Merged, owned.Merged = 1, 1
	item, err := q.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(item.Causes()).To(Equal([]queue.Cause{own, owned}))
}

// mergedInto is what the list of causes of a key should be after one more.
func mergedInto(all []queue.Cause, c queue.Cause) []queue.Cause {
	const most = 1<<16 - 1
	if c == (queue.Cause{}) {
		return all
	}
	for i := range all {
		known := &all[i]
		if known.Trigger == c.Trigger && known.Namespace == c.Namespace && known.Name == c.Name {
			known.Type, known.NewVersion, known.Merged = c.Type, c.NewVersion, min(known.Merged+c.Merged+1, most)
			return all
		}
	}
	if len(all) == maxCauses {
		last := &all[len(all)-1]
		last.Merged = min(last.Merged+c.Merged+1, most)
		return all
	}
	c.Merged = min(c.Merged, most)
	return append(all, c)
}

func TestCausesAreMergedWhateverTheyAreMadeOf(t *testing.T) {
	own := types.NamespacedName{Namespace: "default", Name: "web"}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		pick := func(of ...string) string { return of[random.IntN(len(of))] }
		g := NewWithT(t)
		q, err := queue.New[types.NamespacedName](nil)
		g.Expect(err).NotTo(HaveOccurred())
		if seed%3 == 0 { // too many: it cannot know further ones by number
			for i := range 32 {
				q.AddWithOptions(types.NamespacedName{}, because(queue.Cause{Trigger: fmt.Sprint(i), Type: "added"}))
			}
		}
		q.AddWithOptions(own, queue.AddOptions{})
		var want []queue.Cause
		for range 20 {
			c := queue.Cause{
				Trigger: pick("", "pods", "nodes"), Namespace: pick("default", "default", "other"),
				Name: pick("web", "web", "web-1"), Type: pick("added", "updated", "deleted", ""),
				OldVersion: pick("", "1", "x", "123456789", "not a number"),
				NewVersion: pick("", "0", "12", "007", "x", "123456789", "not a number"),
				Merged:     []int{0, 0, 0, 3, 1<<16 - 2}[random.IntN(5)],
			}
			if random.IntN(10) == 0 {
				c = queue.Cause{}
			}
			q.AddWithOptions(own, because(c))
			want = mergedInto(want, c)
		}
		g.Expect(q.Entries(2)).To(ContainElement(And(HaveField("Key", own), HaveField("Causes", want))), "seed %d", seed)
	}
}
