package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// The keys of slots are found by the owners of the namespaces, whatever their slots.
func keysAreFoundByTheOwnersOfTheirNamespaces(x *fixture) {
	keys := map[int]types.NamespacedName{}
	for n, name := range eighths() {
		keys[n] = types.NamespacedName{Namespace: name, Name: "x"}
	}
	a := x.ranged("a")
	pass(10 * time.Second)
	a.set(func(r *ranged) {
		for slot := range 4 {
			r.left[slot] = []types.NamespacedName{keys[2*slot], keys[2*slot+1]}
		}
	})
	a.end()
	x.divide(secondRanges)
	b := x.ranged("b")
	pass(10 * time.Second)
	b.set(func(r *ranged) {
		for _, key := range keys {
			x.Expect(r.found).To(HaveKeyWithValue(key.String(), 1))
		}
	})
	x.Expect(b.logs.count("has no room")).To(BeZero())
	b.die() // the keys it found are in the records of its slots
	c := x.ranged("c")
	pass(time.Minute)
	c.set(func(r *ranged) {
		for _, key := range keys {
			x.Expect(r.found).To(HaveKeyWithValue(key.String(), 1))
		}
		r.left[3] = []types.NamespacedName{keys[6]}
	})
	c.end()
	d := x.ranged("d")
	pass(time.Minute)
	d.set(func(r *ranged) {
		x.Expect(r.found).To(HaveKey(keys[6].String()))
		for n, key := range keys {
			if n < 6 {
				x.Expect(r.found).NotTo(HaveKey(key.String()), "they are finished with")
			}
		}
	})
	d.end()
}

// Keys left with a namespace's former range survive when another owner of its slot comes and goes first.
func TestKeysOfOtherSlotsStayUntilTheseHaveAnOwner(t *testing.T) {
	inBubble(t, func(x *fixture) {
		key := types.NamespacedName{Namespace: eighths()[7], Name: "x"} // in slot 3, and then in slot 1
		a := x.ranged("a")
		pass(10 * time.Second)
		a.set(func(r *ranged) { r.left[3] = []types.NamespacedName{key} })
		x.divide(secondRanges)
		a.set(func(r *ranged) { r.drain = 0 })
		a.end()
		config, err := x.api.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		for _, slot := range []int{0, 1, 3} { // slot 1 can not be taken, the others can
			l := x.record(slot)
			l.Annotations = map[string]string{
				"leader.homeostat.dev/division": "2/" + string(config.UID), "leader.homeostat.dev/keys": l.Annotations["leader.homeostat.dev/keys"],
			}
			l.Labels["leader.homeostat.dev/record"] = "range"
			if slot == 1 {
				l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = nil, new(int32(120))
			}
			_, err := x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
		}
		b := x.ranged("b")
		pass(10 * time.Second)
		x.Expect(calls(3, b)).To(Equal(1))
		x.Expect(calls(1, b)).To(Equal(0))
		b.end()
		c := x.ranged("c")
		pass(3 * time.Minute)
		x.Expect(calls(1, c)).To(Equal(1))
		c.set(func(r *ranged) { x.Expect(r.found).To(Equal(map[string]int{key.String(): 1})) })
		c.end()
	})
}

// What several slots had may be more than a record has room for.
func TestKeysThatHaveNoRoomInTheRecordOfTheirSlotAreLogged(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		a.end()
		for slot := range 2 {
			var keys []string
			for n := range 250 {
				keys = append(keys, fmt.Sprintf("%q", fmt.Sprint(eighths()[2*slot], "/", n)))
			}
			l := x.record(slot)
			l.Annotations["leader.homeostat.dev/keys"] = "[" + strings.Join(keys, ",") + "]"
			_, err := x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
		}
		x.divide(secondRanges)
		b := x.ranged("b")
		pass(10 * time.Second)
		b.set(func(r *ranged) { x.Expect(r.found).To(HaveLen(400)) })
		x.Expect(b.logs.count(`"msg"="keys not found: the record has no room" "slot"=0 "keys"=100`)).To(Equal(1))
		b.end()
	})
}

func TestKeysThatCouldNotBeLeftGoWithTheirNamespace(t *testing.T) {
	inBubble(t, func(x *fixture) {
		key := types.NamespacedName{Namespace: eighths()[7], Name: "x"} // in slot 3, and then in slot 1
		a := x.ranged("a")
		pass(10 * time.Second)
		a.set(func(r *ranged) { r.left[3] = []types.NamespacedName{key} })
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
		pass(time.Minute) // fenced
		x.divide(secondRanges)
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
		close(open)
		pass(time.Minute)
		a.set(func(r *ranged) { x.Expect(r.found).To(Equal(map[string]int{key.String(): 1})) })
		x.Expect(x.owned()).To(HaveLen(8))
		a.end()
	})
}

func TestKeysAreFoundByTheOwnersOfTheirNamespaces(t *testing.T) {
	inBubble(t, keysAreFoundByTheOwnersOfTheirNamespaces)
}
