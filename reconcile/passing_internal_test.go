package reconcile

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestKeysOfDeletedObjectsAreKeptForTheirTimeAndNoMoreThanTwice(t *testing.T) {
	g := NewWithT(t)
	var p passing
	g.Expect(p.keys()).To(BeEmpty())
	began := time.Now()
	kept := func(name string, after time.Duration) []Key {
		p.add(Key{Name: name}, began.Add(after), time.Minute)
		return p.keys()
	}
	a, b, c, d, e := Key{Name: "a"}, Key{Name: "b"}, Key{Name: "c"}, Key{Name: "d"}, Key{Name: "e"}
	g.Expect(kept("a", 0)).To(ConsistOf(a))
	g.Expect(kept("b", 50*time.Second)).To(ConsistOf(a, b))
	g.Expect(kept("a", 70*time.Second)).To(ConsistOf(a, b), "each once, and b for its minute")
	g.Expect(kept("c", 100*time.Second)).To(ConsistOf(a, b, c))
	g.Expect(kept("d", 140*time.Second)).To(ConsistOf(a, c, d), "b was kept for 90 seconds")
	g.Expect(kept("e", 260*time.Second)).To(ConsistOf(e), "d has had the time of two minutes")
}

func TestABoundedNumberOfKeysOfDeletedObjectsIsKept(t *testing.T) {
	g := NewWithT(t)
	var p passing
	now := time.Now()
	for i := range 3 * passingKeys {
		p.add(Key{Name: strconv.Itoa(i)}, now, time.Minute)
		if i == passingKeys {
			g.Expect(p.keys()).To(HaveLen(passingKeys + 1))
		}
	}
	g.Expect(p.keys()).To(HaveLen(2 * passingKeys))
}
