package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

func noCauses() []queue.Cause { return nil }

func nothing() {}

// Two lingering keys may be reconciled at once, for up to five minutes each.
func TestLingeringKeysWaitInTurn(t *testing.T) {
	key := func(name string) Key { return Key{Namespace: "d", Name: name} }
	for name, check := range map[string]func(g *WithT, l *lingering, admit func(name string) bool){
		"only lingering keys count": func(g *WithT, _ *lingering, admit func(string) bool) {
			for range 5 {
				g.Expect(admit("well")).To(BeTrue())
			}
			g.Expect([]bool{admit("a"), admit("b"), admit("c")}).To(Equal([]bool{true, true, false}))
		},
		"the first that waited is the next one": func(g *WithT, l *lingering, admit func(string) bool) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c"), admit("d")}).To(Equal([]bool{true, true, false, false}))
			g.Expect(l.leave(key("a"), true, noCauses, 2)).To(Equal([]Key{key("c")}))
			g.Expect([]bool{admit("d"), admit("a")}).To(Equal([]bool{false, false}))
			g.Expect([]bool{admit("c"), admit("d"), admit("a")}).To(Equal([]bool{true, false, false}))
		},
		"a key that does not linger any more is free": func(g *WithT, l *lingering, admit func(string) bool) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c")}).To(Equal([]bool{true, true, false}))
			g.Expect(l.leave(key("c"), false, noCauses, 2)).To(BeEmpty()) // it was admitted before it lingered
			g.Expect(admit("c")).To(BeTrue())
		},
		"a call that does not return does not count": func(g *WithT, _ *lingering, admit func(string) bool) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c")}).To(Equal([]bool{true, true, false}))
			<-time.After(5*time.Minute + 1)
			g.Expect([]bool{admit("c"), admit("d"), admit("e")}).To(Equal([]bool{true, true, false}))
		},
		"two places that become free at once are for the two that waited first": func(
			g *WithT, l *lingering, admit func(string) bool,
		) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c"), admit("d"), admit("e")}).
				To(Equal([]bool{true, true, false, false, false}))
			g.Expect(l.leave(key("a"), true, noCauses, 2)).To(Equal([]Key{key("c")}))
			g.Expect(l.leave(key("b"), true, noCauses, 2)).To(Equal([]Key{key("c"), key("d")}), "c has not come yet")
			g.Expect([]bool{admit("d"), admit("c")}).To(Equal([]bool{true, true}))
		},
		"a place whose call does not return is free, too": func(g *WithT, l *lingering, admit func(string) bool) {
			g.Expect(admit("a")).To(BeTrue())
			<-time.After(4 * time.Minute)
			g.Expect([]bool{admit("b"), admit("c"), admit("d")}).To(Equal([]bool{true, false, false}))
			<-time.After(time.Minute)
			g.Expect(l.leave(key("b"), true, noCauses, 2)).To(Equal([]Key{key("c"), key("d")}))
		},
		"a key that waits for its namespace keeps no other waiting": func(g *WithT, l *lingering, admit func(string) bool) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c"), admit("d")}).To(Equal([]bool{true, true, false, false}))
			g.Expect(l.leave(key("a"), true, noCauses, 2)).To(Equal([]Key{key("c")}))
			g.Expect(l.withdraw(key("c"), 2)).To(Equal([]Key{key("d")}))
			g.Expect(l.withdraw(key("c"), 2)).To(BeEmpty(), "it does not wait")
			g.Expect([]bool{admit("d"), admit("c")}).To(Equal([]bool{true, false}))
		},
		"a waiting key that is not in the queue any more keeps no other waiting": func(
			g *WithT, l *lingering, admit func(string) bool,
		) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c")}).To(Equal([]bool{true, true, false}))
			<-time.After(2*recheckAfter + 1)
			_, _, n := l.oldest()
			g.Expect(n).To(BeZero(), "and is not named")
			g.Expect(l.leave(key("a"), true, noCauses, 2)).To(BeEmpty())
			g.Expect([]bool{admit("d"), admit("c")}).To(Equal([]bool{true, false}))
		},
		"keys of another replica keep no other waiting": func(g *WithT, l *lingering, admit func(string) bool) {
			g.Expect([]bool{admit("a"), admit("b"), admit("c")}).To(Equal([]bool{true, true, false}))
			l.forget(func(k Key) bool { return k == key("a") || k == key("c") })
			g.Expect(l.leave(key("a"), false, noCauses, 2)).To(BeEmpty())
			g.Expect([]bool{admit("d"), admit("e"), admit("c")}).To(Equal([]bool{true, false, true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lingering{}
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					l.leave(key(name), true, noCauses, 2)
				}
				check(NewWithT(t), l, func(name string) bool {
					<-time.After(1) // no two keys begin to wait at the same time
					return l.admit(key(name), noCauses, nothing, 2, 5*time.Minute)
				})
			})
		})
	}
}

// In virtual time, many keys begin to wait at the same time. A key that is
// refused although leave has returned it would leave a place empty for a minute.
func TestALingeringKeyThatIsNextIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := NewWithT(t), &lingering{}
		admit := func(k Key) bool { return l.admit(k, noCauses, nothing, 1, time.Hour) }
		running := Key{Namespace: "d", Name: "running"}
		l.leave(running, true, noCauses, 1)
		g.Expect(admit(running)).To(BeTrue())
		const waiting = 20
		for n := range waiting {
			key := Key{Namespace: "d", Name: fmt.Sprint(n)}
			l.leave(key, true, noCauses, 1)
			g.Expect(admit(key)).To(BeFalse())
		}
		for range waiting {
			next := l.leave(running, false, noCauses, 1)
			g.Expect(next).To(HaveLen(1))
			g.Expect(admit(next[0])).To(BeTrue(), "%v", next)
			running = next[0]
		}
	})
}

// A place becomes free while a worker sets the key aside that is next. A release
// of a key that is not in the queue yet would have no effect, and the place would
// stay empty for a minute.
func TestALingeringKeyIsReleasedAfterItWasSetAside(t *testing.T) {
	g, l := NewWithT(t), &lingering{}
	running, next := Key{Name: "running"}, Key{Name: "next"}
	l.leave(running, true, noCauses, 1)
	l.leave(next, true, noCauses, 1)
	g.Expect(l.admit(running, noCauses, nothing, 1, time.Hour)).To(BeTrue())
	var isSetAside bool
	released := make(chan bool)
	g.Expect(l.admit(next, noCauses, func() {
		started := make(chan struct{})
		go func() {
			close(started)
			keys := l.leave(running, true, noCauses, 1)
			released <- slices.Contains(keys, next) && isSetAside
		}()
		<-started
		g.Expect(l.mu.TryLock()).To(BeFalse(), "leave waits")
		isSetAside = true
	}, 1, time.Hour)).To(BeFalse())
	g.Expect(<-released).To(BeTrue())
}

// Of the keys that wait, those with a change take turns with the others.
func TestLingeringKeysWithAChangeTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := NewWithT(t), &lingering{}
		key := func(name string) Key { return Key{Namespace: "d", Name: name} }
		causes := func(version string) func() []queue.Cause {
			return func() []queue.Cause { return []queue.Cause{{Trigger: "t", Name: "n", NewVersion: version}} }
		}
		names := []string{"a", "b", "c", "new-1", "new-2", "new-3", "new-4"}
		for _, name := range append(names, "running") {
			l.leave(key(name), true, causes("1"), 1)
		}
		admit := func(k Key) bool {
			<-time.After(1)
			version := "1"
			if strings.HasPrefix(k.Name, "new") {
				version = "2"
			}
			return l.admit(k, causes(version), nothing, 1, time.Hour)
		}
		g.Expect(admit(key("running"))).To(BeTrue())
		for _, name := range names {
			g.Expect(admit(key(name))).To(BeFalse())
		}
		_, since, n := l.oldest()
		g.Expect([]any{time.Since(since), n}).To(Equal([]any{time.Duration(6), 7}))
		var order []string
		next := l.leave(key("running"), false, nil, 1)
		for len(next) > 0 {
			for _, name := range names {
				if k := key(name); k != next[0] && !slices.Contains(order, name) {
					g.Expect(admit(k)).To(BeFalse(), "it is not the turn of %v", k)
				}
			}
			g.Expect(admit(next[0])).To(BeTrue())
			order = append(order, next[0].Name)
			next = l.leave(next[0], true, causes("2"), 1)
		}
		g.Expect(order).To(Equal([]string{"new-1", "a", "new-2", "b", "new-3", "c", "new-4"}))
	})
}
