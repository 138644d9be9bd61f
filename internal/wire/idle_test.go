package wire_test

import (
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/wire"
)

// heap returns the allocated memory, without the memory that pools keep.
func heap() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A program may watch thousands of namespaces one by one, and most of
// them are calm.
func TestAnIdleWatchHoldsLittle(t *testing.T) {
	const watches, size = 100, 200
	small := protobuf(watch.Event{Type: watch.Deleted, Object: pod("1", "x", "Running")}) // has no placeholder
	many := make([]byte, 0, size*len(small))
	for range size {
		many = append(many, small...)
	}
	for name, sent := range map[string][]byte{
		"nothing has come":    nil,
		"an event has come":   small,
		"events have come":    many,
		"a large one has":     protobuf(watch.Event{Type: watch.Deleted, Object: large(size << 10)}),
		"a part of one has":   small[:len(small)/2],
		"only its length has": small[:4],
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			kind, _ := wire.KindOf(podType)
			before, goroutines := heap(), runtime.NumGoroutine()
			bodies := make([]io.ReadCloser, watches)
			for n := range bodies {
				bodies[n] = wire.NewSpecs(kind, newMemory().known).Body(&silent{sent, make(chan struct{})})
				go func() {
					var err error
					for p := make([]byte, 64); err == nil; {
						_, err = bodies[n].Read(p)
					}
				}()
			}
			synctest.Wait()
			held, running := (heap()-before)/watches, runtime.NumGoroutine()-goroutines
			for _, body := range bodies {
				g.Expect(body.Close()).To(Succeed())
			}
			g.Expect(held).To(BeNumerically("<", 8<<10), name)
			g.Expect(running).To(Equal(watches), "%s: its reader's alone", name)
		})
	}
}
