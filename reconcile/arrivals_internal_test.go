package reconcile

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// Events that a mapper receives as one are the controller's own only if each of
// them is.
func TestMergedEventsAreOwnOnlyIfEachOfThemIs(t *testing.T) {
	ref := objectRef{key: Key{Namespace: "d", Name: "s"}}
	own, by := Key{Name: "own"}, Key{Name: "by"}
	event := func(version string) change { return change{objectRef: ref, uid: "u", version: version} }
	o := &output{ownWrites: [4]ownWrite{
		{key: own, version: "4"}, {key: own, deleted: "u"}, {key: own, version: "2"}, {key: by, version: "1"},
	}}
	d := &loopDetector{outputs: map[objectRef]*output{ref: o}}
	deleted := change{objectRef: ref, uid: "u", deleted: true}
	for _, c := range []struct {
		merged []change
		own    bool
	}{
		{[]change{event("4")}, true},
		{[]change{event("2"), deleted, event("4")}, true},
		{[]change{event("3"), deleted, event("4")}, false},
		{[]change{event("1"), event("4")}, false},
		{[]change{deleted, event("3")}, false},
		{[]change{event("2"), event("2"), event("2"), event("4")}, true},
		{[]change{event("2"), event("2"), event("2"), event("2"), event("4")}, false},
	} {
		all := c.merged[0]
		for _, next := range c.merged[1:] {
			all = next.after(all)
		}
		var addition queue.AddOptions
		d.judgeEvent(own, &all, &addition, time.Now())
		NewWithT(t).Expect(addition.Own).To(Equal(c.own), "%v", c.merged)
	}
	// A failed call puts its event back, before those that have arrived since.
	later := event("4").after(deleted)
	all := later.after(event("3"))
	NewWithT(t).Expect(all.earlier).To(Equal([]change{event("3"), deleted}))
}
