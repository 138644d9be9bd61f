// Command dropin measures three shared informers: client-go's, the informer of
// package clientgo, and the latter with a transport that reuses specs. For each
// it prints the processor time of the start, the user time and the whole
// processor time of one change of an annotation, the memory that the changes
// allocate, and the heap after the start and after the changes. These costs
// include HTTP and decoding. Each informer runs in its own process against one
// server process. The command does not use package testing, because in tests
// informers keep a second copy of each object.
//
//	go run ./cache/dropin -shape secrets -pods 2500 -rounds 5
//
// The shape is secrets for Secrets, and otherwise the shape of Pods: full,
// plain or unlike. The flag -pods is the number of objects, even for Secrets.
package main

import (
	"context"
	"errors"
	"flag"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

const (
	secrets = "secrets"                // the name of a shape of load, and of a resource
	reusing = "clientgo-reusing-specs" // the name of an implementation
)

func main() {
	events := flag.Int("events", 20_000, "number of changes; enough for several garbage collections")
	interval := flag.Duration("every", time.Millisecond, "time from one change to the next")
	apart.Program{
		Name:            "Dropin",
		Implementations: []string{"client-go", "clientgo", reusing},
		Server:          serverOf,
		Measure: func(impl, url string, count int) ([]apart.Value, error) {
			return measure(impl, url, count, *events, *interval)
		},
	}.Main()
}

func serverOf(name string, count int) (*load.Server, error) {
	if name == secrets {
		return load.NewServerOfSecrets(count)
	}
	shape, err := load.Shape(name)
	if err != nil {
		return nil, err
	}
	return load.NewServerOfAnnotated(count, shape)
}

// newInformer returns an informer of the Secrets or Pods of the server at url.
func newInformer(impl, url string) (cache.SharedIndexInformer, error) {
	config := &rest.Config{
		Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf},
	}
	if impl == reusing {
		config.Wrap(clientgo.ReuseSpecs)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resource, example := "pods", runtime.Object(&corev1.Pod{})
	if flag.Lookup("shape").Value.String() == secrets {
		resource, example = secrets, &corev1.Secret{}
	}
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), resource, metav1.NamespaceAll,
		fields.Everything())
	made := cache.NewSharedIndexInformer
	if impl != "client-go" {
		made = clientgo.NewSharedIndexInformer
	}
	return made(source, example, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node": func(obj any) ([]string, error) { // as many programs have it
			if pod, ok := obj.(*corev1.Pod); ok {
				return []string{pod.Spec.NodeName}, nil
			}
			return nil, nil
		},
	}), nil
}

// counter counts the calls of a handler.
type counter struct {
	objects int64
	changes int64
	n       atomic.Int64
	added   chan struct{} // closed after the last object of the first list
	changed chan struct{} // closed after the last change
}

func (c *counter) count() {
	switch c.n.Add(1) {
	case c.objects:
		close(c.added)
	case c.objects + c.changes:
		close(c.changed)
	}
}

func measure(impl, url string, objects, changes int, interval time.Duration) ([]apart.Value, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	informer, err := newInformer(impl, url)
	if err != nil {
		return nil, err
	}
	c := &counter{
		objects: int64(objects), changes: int64(changes), added: make(chan struct{}), changed: make(chan struct{}),
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.count() }, UpdateFunc: func(any, any) { c.count() },
	}); err != nil {
		return nil, err
	}
	empty := apart.Heap()
	began, err := apart.CPUTime()
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	<-c.added
	started, err := apart.CPUTime()
	full := apart.Heap()
	used, usedErr := apart.CPUTime()
	usedUser, userErr := apart.UserTime()
	err = errors.Join(err, usedErr, userErr, apart.Order(url, changes, interval.String()))
	<-c.changed
	spent, spentErr := apart.CPUTime()
	spentUser, userErr := apart.UserTime()
	end := apart.Heap()
	n := float64(changes)
	return []apart.Value{
		{Number: float64((started - began).Microseconds()) / float64(objects), Unit: "start-cpu-µs/object"},
		{Number: float64((spentUser - usedUser).Microseconds()) / n, Unit: "user-µs/change"},
		{Number: float64((spent - used).Microseconds()) / n, Unit: "cpu-µs/change"},
		{Number: float64(end.Mallocs-full.Mallocs) / n, Unit: "allocs/change"},
		{Number: float64(end.TotalAlloc-full.TotalAlloc) / n, Unit: "B/change"},
		{Number: float64(full.HeapAlloc-empty.HeapAlloc) / float64(objects), Unit: "heap-B/object"},
		{Number: float64(end.HeapAlloc-empty.HeapAlloc) / float64(objects), Unit: "heap-after-B/object"},
	}, errors.Join(err, spentErr, userErr)
}
