package informer

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// The reflector counts the time of a watch from the end of its first list, and lists
// everything again after a short one.
func TestAWatchThatHasJustListedIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		first, both := keyspace.Set{{First: 0, Last: 9}}, keyspace.Set{{First: 0, Last: 19}}
		w := &watched{}
		of := watch.NewFake()
		w.opened(of, first, true)
		covered := make(chan error, 1)
		go func() { covered <- w.covering(t.Context(), nil, both) }()
		<-time.After(time.Minute)
		w.streamed()
		<-time.After(time.Second)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeFalse())
		<-time.After(time.Second)
		synctest.Wait()
		g.Expect(of.IsStopped()).To(BeTrue(), "it brings less than is wanted")
		w.opened(watch.NewFake(), both, false)
		g.Expect(<-covered).To(Succeed())
	})
}
