package main

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientgocache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/homeostat/homeostat/informer"
)

// A filled is a cache that has synced.
type filled interface{ len() int }

type lenFunc func() int

func (f lenFunc) len() int { return f() }

var order = []string{
	"floor", "homeostat", "homeostat, paged", "homeostat, no sharing", "client-go", "controller-runtime",
	"controller-runtime, no managedFields", "homeostat, no managedFields",
}

var implementations = map[string]func(ctx context.Context, url string) (filled, error){
	"floor": floor,
	"homeostat": func(ctx context.Context, url string) (filled, error) {
		return ours(ctx, url, &informer.Options{})
	},
	"homeostat, paged": func(ctx context.Context, url string) (filled, error) {
		return listed(ctx, url)
	},
	"homeostat, no sharing": func(ctx context.Context, url string) (filled, error) {
		return ours(ctx, url, &informer.Options{NoSharing: true})
	},
	"homeostat, no managedFields": func(ctx context.Context, url string) (filled, error) {
		return ours(ctx, url, &informer.Options{DropManagedFields: true})
	},
	"client-go": clientGo,
	"controller-runtime": func(ctx context.Context, url string) (filled, error) {
		return controllerRuntime(ctx, url, cache.Options{})
	},
	"controller-runtime, no managedFields": func(ctx context.Context, url string) (filled, error) {
		return controllerRuntime(ctx, url, cache.Options{DefaultTransform: cache.TransformStripManagedFields()})
	},
}

func config(url string) *rest.Config {
	return &rest.Config{Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
}

func ours(ctx context.Context, url string, o *informer.Options) (filled, error) {
	client, err := kubernetes.NewForConfig(config(url))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return run(ctx, informer.For(client.CoreV1().Pods(""), o))
}

// listing is a client that cannot stream lists.
type listing struct {
	informer.Client[*corev1.Pod, *corev1.PodList]
}

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

func listed(ctx context.Context, url string) (filled, error) {
	client, err := kubernetes.NewForConfig(config(url))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	var pods informer.Client[*corev1.Pod, *corev1.PodList] = listing{client.CoreV1().Pods("")}
	return run(ctx, informer.For(pods, nil))
}

func run(ctx context.Context, pods *informer.Informer[*corev1.Pod]) (filled, error) {
	go func() { _ = pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		return nil, err
	}
	return lenFunc(func() int { return pods.Snapshot().Len() }), nil
}

func clientGo(ctx context.Context, url string) (filled, error) {
	client, err := kubernetes.NewForConfig(config(url))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	pods := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	go pods.RunWithContext(ctx)
	for !pods.HasSynced() {
		clientgocache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
	}
	return lenFunc(func() int { return len(pods.GetStore().ListKeys()) }), nil
}

func controllerRuntime(ctx context.Context, url string, o cache.Options) (filled, error) {
	o.Scheme = scheme.Scheme
	o.Mapper = mapper{}
	c, err := cache.New(config(url), o)
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	go func() { _ = c.Start(ctx) }()
	pods, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("starting the informer: %w", err)
	}
	for !pods.HasSynced() {
		clientgocache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
	}
	return lenFunc(func() int {
		return len(pods.(clientgocache.SharedIndexInformer).GetStore().ListKeys())
	}), nil
}

// floor decodes the stream into a map.
func floor(ctx context.Context, url string) (filled, error) {
	client, err := kubernetes.NewForConfig(config(url))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	all := map[string]*corev1.Pod{}
	for event := range w.ResultChan() {
		if event.Type == watch.Bookmark {
			return lenFunc(func() int { return len(all) }), nil
		}
		pod := event.Object.(*corev1.Pod)
		all[pod.Namespace+"/"+pod.Name] = pod
	}
	return nil, fmt.Errorf("watching: %w", io.ErrUnexpectedEOF)
}
