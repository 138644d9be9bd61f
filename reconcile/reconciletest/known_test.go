package reconciletest_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A finding that is on record does not end the exploration: what comes after it is found, or nothing is.
func TestWhatIsKnownDoesNotHideTheRest(t *testing.T) {
	c := breeding.Case(breeding.Premature)
	c.Workload = nil
	for _, k := range []struct {
		name  string
		known []string
		wants string // in the failure
	}{
		{"nothing", nil, "the reply is lost of call 6: "},
		{"another finding", []string{"caches that begin"}, "the reply is lost of call 6: "},
		{"the deviation", []string{"crash after call"}, "the reply is lost of call 6: "},
		{"a smaller example", []string{"the reply is lost of call", "timeout, and later"}, "crash after call 6: "},
		{"what is wrong", []string{"- secrets d/", "0 children"}, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.Search(t, c, &reconciletest.Options{Known: k.known, Budget: breeding.Budget, Seeds: 1})
			g.Expect(r.Failure).To(gomega.HavePrefix(k.wants))
			if k.wants == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Covered()).To(gomega.BeTrue())
			}
			if k.name == "the deviation" || k.name == "what is wrong" {
				g.Expect(r.Known).To(gomega.BeNumerically(">", 0))
			} else {
				g.Expect(r.Known).To(gomega.BeZero())
			}
		})
	}
}

// leaky leaves a goroutine behind.
func leaky(env *reconciletest.Env) error {
	go func() { <-make(chan struct{}) }()
	return breeding.Run(breeding.Premature)(env)
}

// Also one that the run without faults has.
func TestWhatIsKnownWithoutFaultsDoesNotHideTheRest(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = leaky
	o := &reconciletest.Options{Budget: breeding.Budget}
	g.Expect(reconciletest.Search(t, c, o).Oracle).To(gomega.Equal("stop"))
	o.Known = []string{"goroutines that it started are still there"}
	g.Expect(reconciletest.Search(t, c, o).Oracle).To(gomega.Equal("state"))
}
