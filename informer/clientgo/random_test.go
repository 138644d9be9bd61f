package clientgo_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/homeostat/homeostat/informer/clientgo"
)

// recorder is a handler that records its calls by object, because their order
// is defined only for the calls about one object.
type recorder struct {
	mu    sync.Mutex
	calls map[string][]string
	lost  bool // a tombstone has come after something else of its list
	other bool
}

func (r *recorder) note(obj any, call string) {
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string][]string{}
	}
	r.calls[key] = append(r.calls[key], call)
	_, tombstone := obj.(cache.DeletedFinalStateUnknown)
	r.lost = r.lost || tombstone && r.other
	r.other = r.other || !tombstone
}

func (r *recorder) OnAdd(obj any, initial bool) {
	r.note(obj, fmt.Sprintf("add %s %t", state(obj), initial))
}

func (r *recorder) OnUpdate(old, obj any) {
	r.note(obj, fmt.Sprintf("update %s to %s", state(old), state(obj)))
}

func (r *recorder) OnDelete(obj any) {
	if lost, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		r.note(obj, fmt.Sprintf("lost %s as %s", state(lost.Obj), lost.Key))
		return
	}
	r.note(obj, "delete "+state(obj))
}

// take returns the calls since the last take.
func (r *recorder) take() map[string][]string {
	calls, _ := r.takeOrder()
	return calls
}

// takeOrder is take, and reports whether a tombstone has come after something
// else.
func (r *recorder) takeOrder() (calls map[string][]string, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, lost = r.calls, r.lost
	r.calls, r.other, r.lost = nil, false, false
	return calls, lost
}

func state(obj any) string {
	pod := obj.(*corev1.Pod)
	return fmt.Sprintf("%s/%s uid=%s rv=%s node=%s app=%s",
		pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Spec.NodeName, pod.Labels["app"])
}

// side is one of the two informers of a world.
type side struct {
	shared    cache.SharedIndexInformer
	recorders []*recorder
	handles   []cache.ResourceEventHandlerRegistration
}

func (s *side) add(g *WithT, resync time.Duration) {
	r := &recorder{}
	handle, err := s.shared.AddEventHandlerWithResyncPeriod(r, resync)
	g.Expect(err).NotTo(HaveOccurred())
	s.recorders, s.handles = append(s.recorders, r), append(s.handles, handle)
}

// world changes one source, which two informers follow.
type world struct {
	random *rand.Rand
	source *fcache.FakeControllerSource
	pods   map[string]*corev1.Pod
	uid    int
	sides  [2]*side
}

// unstreamed says that the source cannot stream lists.
type unstreamed struct{ *fcache.FakeControllerSource }

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

var byNode = cache.Indexers{"node": func(obj any) ([]string, error) {
	return []string{obj.(*corev1.Pod).Spec.NodeName}, nil
}}

func newWorld(seed uint64, resync time.Duration) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), source: fcache.NewFakeControllerSource(), pods: map[string]*corev1.Pod{},
	}
	for n, made := range []func(
		cache.ListerWatcher, time.Duration,
	) cache.SharedIndexInformer{
		func(lw cache.ListerWatcher, resync time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, resync,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		},
		func(lw cache.ListerWatcher, resync time.Duration) cache.SharedIndexInformer {
			return clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, resync,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		},
	} {
		w.sides[n] = &side{shared: made(unstreamed{w.source}, resync)}
	}
	return w
}

// change makes one change at the source. If it is quiet, no watch delivers it.
func (w *world) change(quiet bool) {
	add, modify, remove := w.source.Add, w.source.Modify, w.source.Delete
	if quiet {
		add, modify, remove = w.source.AddDropWatch, w.source.ModifyDropWatch, w.source.DeleteDropWatch
	}
	key := fmt.Sprintf("%c/%d", 'a'+rune(w.random.IntN(3)), w.random.IntN(6))
	pod, exists := w.pods[key]
	switch {
	case !exists:
		namespace, name, _ := strings.Cut(key, "/")
		w.uid++
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(fmt.Sprint(w.uid)), Labels: map[string]string{"app": "web"},
		}}
		pod.Spec.NodeName = fmt.Sprint(w.random.IntN(3))
		w.pods[key] = pod
		add(pod.DeepCopy())
	case w.random.IntN(3) == 0:
		delete(w.pods, key)
		remove(pod.DeepCopy())
	default:
		pod.Spec.NodeName = fmt.Sprint(w.random.IntN(3))
		pod.Labels = map[string]string{"app": []string{"web", "db"}[w.random.IntN(2)]}
		modify(pod.DeepCopy())
	}
}

// compare fails unless both sides have made the same calls, and have the same
// content.
func (w *world) compare(g *WithT, step int) {
	theirs, ours := w.sides[0], w.sides[1]
	for n := range theirs.recorders {
		got, lost := ours.recorders[n].takeOrder()
		g.Expect(got).To(Equal(theirs.recorders[n].take()), "handler %d at step %d", n, step)
		g.Expect(lost).To(BeFalse(), "deletions come first in a list: %v", got)
		g.Expect(ours.handles[n].HasSynced()).To(Equal(theirs.handles[n].HasSynced()))
	}
	g.Expect(ours.shared.HasSynced()).To(Equal(theirs.shared.HasSynced()))
	g.Expect(ours.shared.LastSyncResourceVersion()).To(Equal(theirs.shared.LastSyncResourceVersion()), "at step %d", step)
	g.Expect(contentOf(ours.shared)).To(Equal(contentOf(theirs.shared)), "at step %d", step)
}

// contentOf returns the results of all methods of an indexer.
func contentOf(of cache.SharedIndexInformer) map[string][]string {
	x := of.GetIndexer()
	content := map[string][]string{"rv": {x.LastStoreSyncResourceVersion()}, "keys": slices.Sorted(slices.Values(x.ListKeys()))}
	content[""] = states(x.List())
	for name := range x.GetIndexers() {
		values := slices.Sorted(slices.Values(x.ListIndexFuncValues(name)))
		content["index "+name] = values
		for _, value := range values {
			found, _ := x.ByIndex(name, value)
			content[name+" "+value] = states(found)
			keys, _ := x.IndexKeys(name, value)
			content[name+" keys "+value] = slices.Sorted(slices.Values(keys))
		}
	}
	return content
}

func states(objects []any) (all []string) {
	for _, obj := range objects {
		all = append(all, state(obj))
	}
	return slices.Sorted(slices.Values(all))
}

// run lets both sides run while step is called, and compares them after each.
func (w *world) run(t *testing.T, g *WithT, steps int, step func(n int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, s := range w.sides {
		running.Go(func() { s.shared.RunWithContext(ctx) })
	}
	synctest.Wait()
	w.compare(g, -1)
	for n := range steps {
		step(n)
		synctest.Wait()
		w.compare(g, n)
	}
	cancel()
	running.Wait()
	for _, s := range w.sides {
		g.Expect(s.shared.IsStopped()).To(BeTrue())
	}
	w.source.Shutdown()
}

// bothDo does the same on both sides.
func (w *world) bothDo(f func(s *side)) {
	for _, s := range w.sides {
		f(s)
	}
}

func TestHandlersAreCalledAsByClientGo(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(seed, 0)
			for range 5 {
				w.change(false)
			}
			w.bothDo(func(s *side) {
				s.add(g, 0)
				s.add(g, 0)
			})
			w.run(t, g, 60, func(n int) {
				switch w.random.IntN(12) {
				case 0: // changes while the watch is down, and a new list
					for range w.random.IntN(8) {
						w.change(true)
					}
					w.source.ResetWatch()
					<-time.After(5 * time.Minute)
				case 1: // the watch delivers what it missed
					w.bothDo(func(s *side) { s.add(g, 0) })
				case 2:
					which := w.random.IntN(len(w.sides[0].handles))
					w.bothDo(func(s *side) { g.Expect(s.shared.RemoveEventHandler(s.handles[which])).To(Succeed()) })
				case 3:
					if n > 5 && len(w.sides[0].shared.GetIndexer().GetIndexers()) == 1 {
						w.bothDo(func(s *side) { g.Expect(s.shared.AddIndexers(maps.Clone(byNode))).To(Succeed()) })
					}
				default:
					w.change(false)
				}
			})
		})
	}
}

func TestHandlersAreResyncedAsByClientGo(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			random := rand.New(rand.NewPCG(seed, 2))
			period := func() time.Duration { return time.Duration(random.IntN(5)) * 1500 * time.Millisecond }
			w := newWorld(seed, period())
			for range 3 {
				w.change(false)
			}
			add := func() {
				resync := period() / 2
				w.bothDo(func(s *side) { s.add(g, resync) })
			}
			add()
			add()
			w.run(t, g, 60, func(n int) {
				if n == 0 {
					<-time.After(7 * time.Millisecond) // no change at the moment of a resync
				}
				<-time.After(time.Duration(1+random.IntN(8)) * 700 * time.Millisecond)
				switch random.IntN(6) {
				case 0:
					add()
				case 1:
					which := random.IntN(len(w.sides[0].handles))
					w.bothDo(func(s *side) { g.Expect(s.shared.RemoveEventHandler(s.handles[which])).To(Succeed()) })
				default:
					w.change(false)
				}
			})
		})
	}
}
