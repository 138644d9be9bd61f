package readers_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/readers"
)

func TestEachEventIsReceivedOnceInOrderAndTheEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const watches = 200
		var r readers.Readers
		var mu sync.Mutex
		got := map[int][]watch.EventType{}
		feeds := make([]chan watch.Event, watches)
		for n := range feeds {
			feeds[n] = make(chan watch.Event)
			r.Read(feeds[n], func(event watch.Event, open bool) {
				mu.Lock()
				defer mu.Unlock()
				if !open {
					event.Type = "end"
				}
				got[n] = append(got[n], event.Type)
			})
		}
		for _, of := range []watch.EventType{watch.Added, watch.Modified} {
			for _, feed := range feeds {
				feed <- watch.Event{Type: of}
			}
		}
		for _, feed := range feeds {
			close(feed)
		}
		r.Wait()
		for n := range feeds {
			g.Expect(got[n]).To(Equal([]watch.EventType{watch.Added, watch.Modified, "end"}))
		}
	})
}

func TestManyWatchesNeedFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		var r readers.Readers
		var stops []func()
		for range 1000 {
			stops = append(stops, r.Read(make(chan watch.Event), func(watch.Event, bool) {}))
		}
		synctest.Wait()
		NewWithT(t).Expect(runtime.NumGoroutine() - before).To(BeNumerically("<=", 1000/64+1))
		for _, stop := range stops {
			stop()
			stop()
		}
		r.Wait()
	})
}

func TestAWatchThatIsNoLongerReadReceivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var r readers.Readers
		feed, received := make(chan watch.Event, 2), 0
		stop := r.Read(feed, func(watch.Event, bool) { received++ })
		feed <- watch.Event{}
		synctest.Wait()
		stop()
		feed <- watch.Event{}
		r.Wait()
		g.Expect(received).To(Equal(1))
	})
}

func TestAReceiverThatEndsItsGoroutineEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var r readers.Readers
		first, second, received := make(chan watch.Event), make(chan watch.Event), 0
		r.Read(first, func(_ watch.Event, open bool) {
			if open {
				runtime.Goexit()
			}
		})
		r.Read(second, func(_ watch.Event, open bool) {
			if open {
				received++
			}
		})
		first <- watch.Event{}
		second <- watch.Event{}
		first <- watch.Event{}
		second <- watch.Event{}
		close(first)
		close(second)
		r.Wait()
		g.Expect(received).To(Equal(2))
	})
}
