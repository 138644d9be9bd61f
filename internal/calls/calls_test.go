package calls_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/calls"
)

func TestACallThatHangsIsReportedOnceAndNamedUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		reports := make(chan string, 10) // timers write it
		c := &calls.Calls{Report: func(call calls.Call) { reports <- call.Function + " " + call.Key.String() }}
		key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		c.End(c.Begin("short", key("1")))
		pass(50 * time.Second)
		first := c.Begin("first", key("1"))
		pass(5 * time.Second)
		second := c.Begin("second", key("2"))
		c.End(c.Begin("short", key("3")))
		pass(54 * time.Second)
		g.Expect(c.Hanging()).To(BeEmpty())
		g.Expect(reports).NotTo(Receive())

		pass(2 * time.Second)
		g.Expect(reports).To(Receive(Equal("first a/1")))
		pass(time.Hour)
		g.Expect(reports).To(Receive(Equal("second a/2")))
		g.Expect(reports).NotTo(Receive())
		g.Expect(c.Hanging()).To(HaveLen(2))
		g.Expect(c.Hanging()[0].Function).To(Equal("first"))

		c.End(first)
		g.Expect(c.Hanging()).To(HaveLen(1))
		c.End(second)
		g.Expect(c.Hanging()).To(BeEmpty())
	})
}
