package reconcile

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestTheHistoryTouchedLongestAgoIsReplaced(t *testing.T) {
	g := NewWithT(t)
	var h histories
	key := func(i int) Key { return Key{Name: strconv.Itoa(i)} }
	for i := range historyKeys {
		h.get(key(i), true)
	}
	first := h.get(key(0), false)
	g.Expect(h.get(key(historyKeys), false)).To(BeNil(), "there is no room")
	h.get(key(historyKeys), true)
	g.Expect(h.byKey).To(HaveLen(historyKeys))
	g.Expect(h.get(key(0), false)).To(BeIdenticalTo(first), "it was touched")
	g.Expect(h.byKey).NotTo(HaveKey(key(1)))
	g.Expect(h.byKey).To(HaveKey(key(2)))
}

func TestAnOutcomeIsRecordedForItsAttemptAlone(t *testing.T) {
	g := NewWithT(t)
	var h histories
	k := h.get(Key{Name: "a"}, true)
	k.attempts, k.number = make([]inspect.Attempt, historyLength), historyLength
	h.ended(k.key, 1, inspect.Failed)
	g.Expect(k.attempts[0].Outcome).To(Equal(inspect.Failed), "the oldest attempt is still there")
	k.attempts[0], k.number = inspect.Attempt{}, historyLength+1
	h.ended(k.key, 1, inspect.Failed)
	g.Expect(k.attempts[0].Outcome).To(BeZero(), "the oldest attempt has given its place to the newest")
}

// It ended when there was no room, and a user has asked for the key's history
// since.
func TestTheOutcomeOfAForgottenAttemptIsRecordedForNoOther(t *testing.T) {
	g := NewWithT(t)
	var h histories
	k := h.get(Key{Name: "a"}, true)
	k.attempts, k.number = make([]inspect.Attempt, 3), 3
	h.ended(k.key, 0, inspect.Failed)
	g.Expect(k.attempts).To(HaveEach(BeZero()))
}

func TestWritesOfAKeyThatIsNotRememberedMayBeSeen(t *testing.T) {
	var h histories
	h.seen(Key{Name: "a"})
	NewWithT(t).Expect(h.byKey).To(BeEmpty())
}
