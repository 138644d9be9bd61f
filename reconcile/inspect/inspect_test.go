package inspect_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// What package leader makes can be shown: renaming a method there breaks this.
var (
	_ inspect.Elector    = (*leader.Elector)(nil)
	_ inspect.LeaseNamer = (*leader.Elector)(nil)
	_ inspect.Warner     = (*leader.Elector)(nil)
	_ inspect.Elector    = (*shard.Shards)(nil)
)

// user is what a controller says of its informers.
type user []inspect.InformerStatus

func (u user) Informers() []inspect.InformerStatus { return u }

var _ interface {
	Informers() []inspect.InformerStatus
} = (*reconcile.Controller)(nil)

func TestInformersAreListedOnceAndNamedApart(t *testing.T) {
	g := NewWithT(t)
	of := func(identity any, name, controller string) inspect.InformerStatus {
		return inspect.InformerStatus{Status: informer.Status{Name: name}, Controllers: []string{controller}, Identity: identity}
	}
	all := inspect.Informers(
		user{of(1, "pods", "one"), of(2, "nodes", "one")},
		user{of(3, "pods", "two"), of(2, "nodes", "two"), of(4, "pods", "two")},
	)
	g.Expect(all).To(HaveExactElements(
		of(1, "pods", "one"),
		inspect.InformerStatus{Status: informer.Status{Name: "nodes"}, Controllers: []string{"one", "two"}, Identity: 2},
		of(3, "pods-2", "two"),
		of(4, "pods-3", "two"),
	))
	g.Expect(all[0].Feeds(inspect.TriggerStatus{Identity: 1, Informer: "other"})).To(BeTrue())
	g.Expect(all[0].Feeds(inspect.TriggerStatus{Identity: 3, Informer: "pods"})).To(BeFalse())
	g.Expect(inspect.InformerStatus{}.Feeds(inspect.TriggerStatus{})).To(BeFalse(), "an external trigger has no informer")
}

func TestOutcomesAreInTheMetrics(t *testing.T) {
	g := NewWithT(t)
	for o, name := range map[inspect.Outcome]string{
		inspect.Succeeded: "success", inspect.Requeued: "requeue_after", inspect.Conflicted: "conflict",
		inspect.Failed: "error", inspect.GaveUp: "terminal",
	} {
		g.Expect(o.String()).To(Equal(name))
	}
	g.Expect(inspect.Stats{}.Reconciles).To(HaveLen(5))
}
