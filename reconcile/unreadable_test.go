package reconcile_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// inUnreadable calls f with an informer that cannot cache ConfigMaps with data
// "bad".
func inUnreadable(t *testing.T, f func(w *fixture)) {
	t.Helper()
	inFixture(t, func(w *fixture) {
		w.in = informer.For(w.client.CoreV1().ConfigMaps("d"), &informer.Options{Transform: func(object informer.Object) {
			if object.(*configMap).Data["bad"] != "" {
				panic("not this one")
			}
		}})
		f(w)
	})
}

// nothingBut matches one or more reconciles like that: an object that is
// readable again has changed, too, and a worker may be between the two.
func nothingBut(reconcile string) OmegaMatcher {
	return And(Not(BeEmpty()), HaveEach(reconcile))
}

func makeBad(c *configMap) { c.Data = map[string]string{"bad": "yes"} }

func TestAKeyWhoseObjectIsUnreadableFails(t *testing.T) {
	inUnreadable(t, func(w *fixture) {
		w.create("a", "b")
		w.update("b", makeBad)
		c := w.made(nil, w.recorder())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(ConsistOf("object a"))
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(c.Stats().Reconciles[inspect.GaveUp]).To(BeEquivalentTo(1))
		w.Expect(c.Status(10).Keys).To(ConsistOf(And(HaveField("Key", key("b")), HaveField("Resting", true),
			HaveField("Failure", And(ContainSubstring(`ConfigMap "d/b"`), ContainSubstring("not this one"))))))
		pass(time.Hour)
		w.Expect(c.Stats().Reconciles[inspect.GaveUp]).To(BeEquivalentTo(1), "nothing changes by trying")

		w.update("b", func(*configMap) {})
		w.Expect(w.reconciled()).To(nothingBut("object b"))
		w.Expect(c.Stats().Failing).To(BeZero())

		w.update("b", makeBad)
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.update("a", func(c *configMap) { c.Data = map[string]string{"good": "yes"} })
		w.Expect(w.reconciled()).To(Equal([]string{"object a"}))
		w.delete("b")
		w.Expect(w.reconciled()).To(nothingBut("gone b"))
		w.Expect(c.Stats().Failing).To(BeZero())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAnUnreadableObjectThatWasNeverCachedIsNoOrphan(t *testing.T) {
	inUnreadable(t, func(w *fixture) {
		w.create("a", "b")
		w.update("b", makeBad)
		c := w.made(&reconcile.Options{Known: knownKeys("a", "b"), Sweep: &names.Options{Period: time.Minute}}, w.recorder())
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(w.reconciled()).To(ConsistOf("object a"))
		w.Expect(c.Sweep().Stats().Orphans).To(BeZero())
		c.Enqueue(key("b"))
		w.Expect(w.reconciled()).To(BeEmpty(), "it is never reconciled as deleted")
		w.delete("b")
		w.Expect(w.reconciled()).To(nothingBut("gone b"), "once it is")
		w.Expect(stop()).To(Succeed())
	})
}

// A mapper that panics for one object holds up no other.
func TestAMapperThatPanicsForOneObjectMapsTheOthers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c")
		mapped := reconcile.Mapped(w.in, func(_ context.Context, _, object *configMap) ([]reconcile.Key, error) {
			if object.Name == "b" && object.Data["good"] == "" {
				panic("not this one")
			}
			return []reconcile.Key{key("of-" + object.Name)}, nil
		})
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{mapped}}, w.recorder())
		w.Expect(w.reconciled()).To(ConsistOf("object a", "object b", "object c", "gone of-a", "gone of-c"))
		w.Expect(w.logged()).To(ContainElement(And(ContainSubstring(`mapping ConfigMap`), ContainSubstring(`d/b`),
			ContainSubstring("not this one"))))
		w.update("b", func(c *configMap) { c.Data = map[string]string{"good": "yes"} })
		pass(time.Hour)
		w.Expect(w.reconciled()).To(ConsistOf("object b", "gone of-b"))
		w.Expect(stop()).To(Succeed())
	})
}
