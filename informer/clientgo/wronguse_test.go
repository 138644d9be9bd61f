package clientgo_test

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
)

// uses are ways to use a shared informer, most of them wrong, and their
// results. Each is tried before the informer runs, while it runs, and after it
// has stopped.
var uses = []struct { //nolint:gochecknoglobals // a table
	name string
	try  func(i cache.SharedIndexInformer, other cache.ResourceEventHandlerRegistration) any
}{
	{"transform", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.SetTransform(nil)
	}},
	{"watch error handler", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.SetWatchErrorHandler(nil)
	}},
	{"watch error handler with context", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.SetWatchErrorHandlerWithContext(nil)
	}},
	{"no indexers", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.AddIndexers(nil)
	}},
	{"indexers", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.AddIndexers(byNode)
	}},
	{"the same indexers", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		_ = i.AddIndexers(byNode)
		return i.AddIndexers(byNode)
	}},
	{"a handler that is removed twice", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		handle, err := i.AddEventHandler(&cache.ResourceEventHandlerFuncs{})
		if err != nil {
			return err
		}
		return fmt.Sprint(i.RemoveEventHandler(handle), i.RemoveEventHandler(handle))
	}},
	{"a handler with a negative resync", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		_, err := i.AddEventHandlerWithResyncPeriod(&cache.ResourceEventHandlerFuncs{}, -time.Second)
		return err
	}},
	{"no registration", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.RemoveEventHandler(nil)
	}},
	{"another informer's registration", func(i cache.SharedIndexInformer, other cache.ResourceEventHandlerRegistration) any {
		return i.RemoveEventHandler(other)
	}},
	{"store of what is no object", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.GetStore().Add("no object")
	}},
	{"store of nothing", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.GetStore().Add(nil)
	}},
	{"deletion of what is no object", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.GetStore().Delete("no object")
	}},
	{"replacement by what is no object", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return i.GetStore().Replace([]any{"no object"}, "1")
	}},
	{"read of what is no object", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return fmt.Sprint(i.GetStore().Get("no object"))
	}},
	{"read by a wrong key", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return fmt.Sprint(i.GetStore().GetByKey("a/b/c"))
	}},
	{"reads with an empty namespace or name", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		_ = i.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "without-namespace"}})
		_, isFound, err := i.GetStore().GetByKey("/without-namespace")
		_, isFoundWithSlash, other := i.GetStore().GetByKey("without-namespace/")
		return fmt.Sprint(isFound, err, isFoundWithSlash, other)
	}},
	{"an unknown index", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		_, err := i.GetIndexer().ByIndex("none", "")
		_, other := i.GetIndexer().Index("none", &corev1.Pod{})
		_, keys := i.GetIndexer().IndexKeys("none", "")
		return fmt.Sprint(err, other, keys, i.GetIndexer().ListIndexFuncValues("none"))
	}},
	{"the state", func(i cache.SharedIndexInformer, _ cache.ResourceEventHandlerRegistration) any {
		return fmt.Sprint(i.HasSynced(), i.IsStopped(), i.LastSyncResourceVersion(), i.HasSyncedChecker().Name(),
			i.GetController().HasSynced(), i.GetController().LastSyncResourceVersion(), i.GetStore().ListKeys())
	}},
}

// addresses, and a wrong verb of client-go's, are left out of answers.
var addresses = regexp.MustCompile(`0x[0-9a-f]+|%!t\(|\)`)

// answer returns the result of a use as text.
func answer(try func() any) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint("panic: ", r)
		}
	}()
	return addresses.ReplaceAllString(fmt.Sprint(try()), "")
}

// answers returns the results of all uses of an informer, in each of its
// states.
func answers(
	t *testing.T, made func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer,
) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, use := range uses {
		for _, state := range []string{"before it runs", "while it runs", "after it has stopped"} {
			synctest.Test(t, func(t *testing.T) {
				from := source(t, pod("a", "1"))
				i := made(from, nil, 0, cache.Indexers{}) // a nil example takes any type
				other := handle(NewWithT(t), made(from, nil, 0, cache.Indexers{}), &recorder{})
				stop := func() {}
				if state != "before it runs" {
					stop = start(t, i)
					i.RunWithContext(t.Context()) // a second Run returns
				}
				if state == "after it has stopped" {
					stop()
					i.Run(nil) // returns, too
				}
				all[use.name+" "+state] = answer(func() any { return use.try(i, other) })
				synctest.Wait()
				stop()
			})
		}
	}
	return all
}

func TestWrongUseGetsTheAnswerOfClientGo(t *testing.T) {
	theirs, ours := answers(t, cache.NewSharedIndexInformer), answers(t, clientgo.NewSharedIndexInformer)
	for use, want := range theirs {
		if ours[use] != want {
			t.Errorf("%s: %q, client-go's informer says %q", use, ours[use], want)
		}
	}
}
