package reconcile

import (
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
)

// countedReferences is a cache of references that counts what is held. The
// states of all objects are known.
type countedReferences struct {
	parts.References // nil

	held map[Key]int
}

func (c *countedReferences) Hold(key Key) { c.held[key]++ }

func (c *countedReferences) Release(key Key) {
	if c.held[key]--; c.held[key] == 0 {
		delete(c.held, key)
	}
}

func (c *countedReferences) State(Key) (known bool, err error) { return true, nil }

// newReferrers returns the referrers of ConfigMaps that refer to the objects
// that their annotations name.
func newReferrers(g *WithT) (*referrers, *countedReferences) {
	q, err := queue.New(&queue.Options[Key]{Name: "test"})
	g.Expect(err).NotTo(HaveOccurred())
	c := &countedReferences{held: map[Key]int{}}
	byAnnotations := references[*corev1.ConfigMap, *corev1.Secret]{f: func(m *corev1.ConfigMap) (keys []Key) {
		for name := range m.Annotations {
			keys = append(keys, Key{Name: name})
		}
		return keys
	}}
	return &referrers{
		functions: []reference{{referring: byAnnotations, cache: c, guarded: (&intake{}).guarded, kind: func() string { return "Secret" }}},
		owns:      func(Key) bool { return true }, queue: q,
		owners: map[Key]*referrer{}, owning: map[objectRef]map[Key]int{},
		parked: map[Key]struct{}{}, failed: map[Key]struct{}{},
	}, c
}

func refersTo(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: ""}}}
}

// An object that was read before is reconciled only after it was read again:
// what it refers to is not held.
func TestTheReferencesOfALaterLookStay(t *testing.T) {
	g := NewWithT(t)
	r, c := newReferrers(g)
	key := Key{Name: "a"}
	earlier, later := r.beginLook(), r.beginLook()
	current, err := r.note(key, refersTo("new"), later)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(current).To(BeTrue())
	current, err = r.note(key, refersTo("old"), earlier)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(current).To(BeFalse())
	g.Expect(c.held).To(Equal(map[Key]int{{Name: "new"}: 1}))
}

func TestAKeyThatLeavesThisReplicaWhileItsReferencesAreRecordedHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	r, c := newReferrers(g)
	asked := 0
	r.owns = func(Key) bool { asked++; return asked == 1 }
	object := metav1.Object(refersTo("x"))
	r.object = func(Key) metav1.Object { return object }
	r.update(Key{Name: "a"})
	g.Expect(c.held).To(BeEmpty())
	g.Expect(r.owners).To(BeEmpty())
}

func TestKeysThatAreForgottenWaitForNothing(t *testing.T) {
	g := NewWithT(t)
	r, _ := newReferrers(g)
	r.parked[Key{Name: "a"}], r.parked[Key{Name: "b"}] = struct{}{}, struct{}{}
	r.forget(func(key Key) bool { return key.Name == "a" })
	g.Expect(r.parked).To(Equal(map[Key]struct{}{{Name: "b"}: {}}))
}

func TestAFunctionThatEndsItsGoroutineIsAnError(t *testing.T) {
	g := NewWithT(t)
	f := reference{
		guarded:   (&intake{}).guarded,
		referring: references[*corev1.ConfigMap, *corev1.Secret]{f: func(*corev1.ConfigMap) []Key { runtime.Goexit(); return nil }},
		kind:      func() string { return "Secret" },
	}
	_, err := f.call(refersTo("x"))
	g.Expect(err).To(MatchError(ContainSubstring("Goexit")))
}
