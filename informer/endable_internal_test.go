package informer

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// complaining is a watch that reports an error when it is stopped, as those of client-go
// may.
type complaining struct {
	events  chan watch.Event
	stopped *int
}

func (c complaining) ResultChan() <-chan watch.Event { return c.events }

func (c complaining) Stop() {
	*c.stopped++
	select {
	case c.events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "read on closed response body"}}:
	case <-time.After(time.Second): // no reader
	}
}

func TestAWatchIsEndedWithoutAnError(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			inner := complaining{make(chan watch.Event), new(0)}
			e := newEndable(inner, nil)
			var events []watch.Event
			done := make(chan struct{})
			go func() {
				defer close(done)
				for event := range e.ResultChan() {
					events = append(events, event)
				}
			}()
			inner.events <- watch.Event{Type: watch.Modified}
			synctest.Wait()
			e.Stop()
			<-done
			g.Expect(events).To(Equal([]watch.Event{{Type: watch.Modified}}))
			e.Stop() // by its reader
			g.Expect(*inner.stopped).To(Equal(1))
		})
	}
}
