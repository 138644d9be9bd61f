package informer

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

func stubAt(g *WithT, name string, uid types.UID, rv int) *corev1.ConfigMap {
	like := configMapAt(name, rv).ObjectMeta
	like.UID = uid
	stub, ok := itemwise.Stub[*corev1.ConfigMap](like, &itemwise.Refusal{Cause: itemwise.CauseDecode, Err: errors.New("not this one")})
	g.Expect(ok).To(BeTrue())
	return stub
}

// No event reported the deletion of the old object, because it happened while
// the watch was down.
func TestAnUnreadableEventOfARecreatedObjectEndsTheOldOne(t *testing.T) {
	for uid, stays := range map[types.UID]bool{"1": true, "2": false, "": true} {
		g, d := filled(t)
		d.Put(itemOf(configMapAt("x", 3)))
		d.Put(itemOf(stubAt(g, "x", uid, 5)))
		g.Expect(content(d)).To(HaveLen(map[bool]int{true: 1, false: 0}[stays]), "UID %q", uid)
		g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
	}
}

// The resourceVersion of a list may be older than a state from the watch or
// from another list.
func TestAnOlderListEndsNoUnreadableState(t *testing.T) {
	for name, older := range map[string][]*corev1.ConfigMap{
		"with an earlier state": {configMapAt("x", 6)}, "from before the object": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g, d := filled(t)
			g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(stubAt(g, "x", "1", 8)), "9")).To(Succeed())
			d.Replace("7", items(older...), versions.Relist, nil)
			g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
			g.Expect(content(d)).To(BeEmpty())
			d.Replace("12", items(configMapAt("x", 10)), versions.Relist, nil)
			g.Expect(d.store.unreadable.problems()).To(BeEmpty())
			g.Expect(content(d)).To(Equal([]string{"x@10"}))
		})
	}
}

// A list that is older than the unreadable state does not delete the cached
// state of the object.
func TestAnOlderListDeletesNothingThatIsUnreadable(t *testing.T) {
	for name, older := range map[string]*corev1.ConfigMap{
		"with a state between": configMapAt("x", 6), "with the state that is cached": configMapAt("x", 3),
	} {
		t.Run(name, func(t *testing.T) {
			g, d := filled(t)
			d.Put(itemOf(configMapAt("x", 3)))
			g.Expect(d.fill(d.cover.Filling(), keyspace.Whole(), items(stubAt(g, "x", "1", 8)), "9")).To(Succeed())
			g.Expect(content(d)).To(Equal([]string{"x@3"}))
			d.Replace("7", items(older), versions.Relist, nil)
			g.Expect(content(d)).To(Equal([]string{"x@3"}))
			g.Expect(d.store.unreadable.problems()).To(HaveLen(1))
		})
	}
}
