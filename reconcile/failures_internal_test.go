package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestAnotherMissingPermissionIsAnnouncedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var f failures
		key := Key{Namespace: "d", Name: "a"}
		refused := func(verb string) {
			now := time.Now()
			f.put(key, failure{
				failedAt: now, began: now, missing: &permission{verb: verb, resource: "secrets", namespaces: []string{"d"}},
			})
		}
		refused("create")
		<-time.After(refusedFor)
		refused("create")
		g.Expect(f.announce(key)).To(ContainSubstring("refuses to create secrets"))
		g.Expect(f.announce(key)).To(BeEmpty(), "once")

		granted := time.Now()
		refused("patch")
		g.Expect(f.announce(key)).To(BeEmpty(), "it has been missing for no time")
		g.Expect(f.refused(granted.Add(-time.Second))).To(BeEmpty())
		<-time.After(refusedFor)
		refused("patch")
		g.Expect(f.announce(key)).To(ContainSubstring("refuses to patch secrets"))
		missing := f.refused(time.Now())
		g.Expect(missing).To(HaveLen(1))
		g.Expect(missing[0].began).To(Equal(granted))
	})
}

func TestFailuresOfTriggersAreRememberedUpToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var faults triggerFaults
		boom := errors.New("boom")
		fail := func(n int) {
			faults.failed(faultKey{function: "mapper", object: Key{Name: fmt.Sprint(n)}}, "the mapper", boom, 0)
		}
		for n := range 2 * maxFailures {
			fail(n)
		}
		broker := faultKey{function: "broker"}
		g.Expect(faults.failed(broker, "the broker", boom, 0)).To(BeTrue())
		g.Expect(faults.failed(broker, "the broker", boom, 0)).To(BeFalse(), "an external trigger is always recorded")
		<-time.After(failsFor)
		g.Expect(faults.lasting()).To(HaveLen(maxFailures + 1))

		faults.succeeded(faultKey{function: "mapper", object: Key{Name: "0"}})
		faults.succeeded(faultKey{function: "mapper", object: Key{Name: "1"}})
		fail(2*maxFailures - 1)
		<-time.After(failsFor)
		g.Expect(faults.lasting()).To(HaveLen(maxFailures), "there is room again")
	})
}
