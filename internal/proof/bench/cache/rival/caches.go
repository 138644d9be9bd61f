// Package rival contains the caches and the loops that are measured over HTTP
// with protobuf: ours, client-go's, controller-runtime's, and the minimum, a
// cache that only decodes.
package rival

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientgocache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

// A Cache is a cache that has synced.
type Cache struct{ Len func() int }

// A start is a way to start a cache. run returns the cache after it has synced,
// and calls heard, which may be nil, for each event.
type start struct {
	name string
	run  func(ctx context.Context, url string, heard func()) (Cache, error)
}

func starts() []start {
	return []start{
		{"floor", floor},
		{"homeostat", ours(&informer.Options{})},
		{"homeostat-paged", paged},
		{"homeostat-without-sharing", ours(&informer.Options{NoSharing: true})},
		{"client-go", clientGo},
		{"controller-runtime", controllerRuntime(cache.Options{})},
		{"controller-runtime-without-managedFields", controllerRuntime(cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
		})},
		{"controller-runtime-with-our-informer", controllerRuntime(cache.Options{
			NewInformer: clientgo.NewSharedIndexInformer,
		})},
		{"homeostat-without-managedFields", ours(&informer.Options{DropManagedFields: true})},
	}
}

// Caches returns the names of the caches.
func Caches() (names []string) {
	for _, s := range starts() {
		names = append(names, s.name)
	}
	return names
}

// Sync fills the cache with this name from the server at url, and keeps it up
// to date until ctx ends. It calls heard, which may be nil, for each event.
func Sync(ctx context.Context, name, url string, heard func()) (Cache, error) {
	i := slices.Index(Caches(), name)
	if i < 0 {
		return Cache{}, fmt.Errorf("there is no cache named %q", name)
	}
	return starts()[i].run(ctx, url, heard)
}

func config(url string) *rest.Config {
	protobuf := rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}
	return &rest.Config{Host: url, QPS: -1, ContentConfig: protobuf}
}

func clientOf(url string) (*kubernetes.Clientset, error) {
	client, err := kubernetes.NewForConfig(config(url))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

func ours(o *informer.Options) func(ctx context.Context, url string, heard func()) (Cache, error) {
	return func(ctx context.Context, url string, heard func()) (Cache, error) {
		client, err := clientOf(url)
		if err != nil {
			return Cache{}, err
		}
		return run(ctx, informer.For(client.CoreV1().Pods(""), o), heard)
	}
}

// listing is a client that cannot stream lists.
type listing struct {
	informer.Client[*corev1.Pod, *corev1.PodList]
}

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

func paged(ctx context.Context, url string, heard func()) (Cache, error) {
	client, err := clientOf(url)
	if err != nil {
		return Cache{}, err
	}
	var pods informer.Client[*corev1.Pod, *corev1.PodList] = listing{client.CoreV1().Pods("")}
	return run(ctx, informer.For(pods, nil), heard)
}

func run(ctx context.Context, pods *informer.Informer[*corev1.Pod], heard func()) (Cache, error) {
	if heard != nil {
		pods.Handle(func(informer.Event[*corev1.Pod]) { heard() })
	}
	go func() { _ = pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		return Cache{}, err
	}
	return Cache{func() int { return pods.Snapshot().Len() }}, nil
}

func clientGo(ctx context.Context, url string, heard func()) (Cache, error) {
	client, err := clientOf(url)
	if err != nil {
		return Cache{}, err
	}
	pods := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	if err := listen(pods, heard); err != nil {
		return Cache{}, err
	}
	go pods.RunWithContext(ctx)
	for !pods.HasSynced() {
		clientgocache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
	}
	return Cache{func() int { return len(pods.GetStore().ListKeys()) }}, nil
}

// listen adds a handler to pods, unless heard is nil. The handler calls heard
// for each event.
func listen(pods interface {
	AddEventHandler(handler clientgocache.ResourceEventHandler) (clientgocache.ResourceEventHandlerRegistration, error)
}, heard func(),
) error {
	if heard == nil {
		return nil
	}
	if _, err := pods.AddEventHandler(clientgocache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { heard() }, UpdateFunc: func(_, _ any) { heard() }, DeleteFunc: func(any) { heard() },
	}); err != nil {
		return fmt.Errorf("adding a handler: %w", err)
	}
	return nil
}

func controllerRuntime(o cache.Options) func(ctx context.Context, url string, heard func()) (Cache, error) {
	log.SetLogger(logr.Discard())
	return func(ctx context.Context, url string, heard func()) (Cache, error) {
		o.Scheme = scheme.Scheme
		o.Mapper = mapper{}
		c, err := cache.New(config(url), o)
		if err != nil {
			return Cache{}, fmt.Errorf("making a cache: %w", err)
		}
		pods, err := c.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil {
			return Cache{}, fmt.Errorf("making the informer: %w", err)
		}
		if err := listen(pods, heard); err != nil {
			return Cache{}, err
		}
		go func() { _ = c.Start(ctx) }()
		for !pods.HasSynced() {
			clientgocache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
		}
		return Cache{func() int {
			return len(pods.(clientgocache.SharedIndexInformer).GetStore().ListKeys())
		}}, nil
	}
}

// floor returns a cache that decodes the stream of events into a map, and does
// nothing else. Its cost is the least that any cache can have.
func floor(ctx context.Context, url string, heard func()) (Cache, error) {
	client, err := clientOf(url)
	if err != nil {
		return Cache{}, err
	}
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return Cache{}, fmt.Errorf("watching the Pods: %w", err)
	}
	pods := map[string]*corev1.Pod{}
	for event := range w.ResultChan() {
		if event.Type == watch.Bookmark {
			n := len(pods)
			go store(w, pods, heard)
			return Cache{func() int { return n }}, nil
		}
		pod := event.Object.(*corev1.Pod)
		pods[pod.Namespace+"/"+pod.Name] = pod
		if heard != nil {
			heard()
		}
	}
	return Cache{}, fmt.Errorf("watching the Pods: %w", io.ErrUnexpectedEOF)
}

func store(w watch.Interface, pods map[string]*corev1.Pod, heard func()) {
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok { // the end
			return
		}
		pods[pod.Namespace+"/"+pod.Name] = pod
		if heard != nil {
			heard()
		}
	}
}
