package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestTheTimeInReconcilesThatStillRunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		b := &busy{}
		<-time.After(time.Minute)
		g.Expect(b.time()).To(BeZero())
		b.add(1)
		<-time.After(time.Second)
		g.Expect(b.time()).To(Equal(time.Second), "one runs")
		b.add(1)
		<-time.After(time.Second)
		g.Expect(b.time()).To(Equal(3*time.Second), "two run at once")
		b.add(-1)
		<-time.After(time.Second)
		b.add(-1)
		<-time.After(time.Minute)
		g.Expect(b.time()).To(Equal(4 * time.Second))
	})
}

func TestCountingTheTimeOfAReconcileAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	b := &busy{}
	g.Expect(testing.AllocsPerRun(100, func() {
		b.add(1)
		b.add(-1)
	})).To(BeZero())
}
