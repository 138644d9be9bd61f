// Package cache_test measures reads from caches of Pods.
package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	clientgocache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

// reader is the interface of all rivals. Each function returns a number other
// than 0 if it has found something.
type reader struct {
	get       func(key types.NamespacedName) int
	all       func() int
	namespace func(name string) int
	label     func(selector labels.Selector) int
	node      func(name string) int
}

// A cached has synced. Its readers look at the name of each object, or take the
// objects and do not look at any.
type cached func(look bool) reader

// size returns the number that reads add up.
func size(p *corev1.Pod, look bool) int {
	if look {
		return len(p.Name)
	}
	if p != nil {
		return 1
	}
	return 0
}

const byNode = "node"

func nodeOf(obj any) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }

func homeostat(b *testing.B, config *rest.Config) cached {
	pods := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().Pods(""),
		&informer.Options{MutationCheck: "never", IndexLabels: []string{"app"}})
	nodes := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	must(b, pods.WaitForSync(ctx))
	return func(look bool) reader {
		return reader{
			get: func(key types.NamespacedName) int {
				p, _ := pods.Get(key)
				return size(p, look)
			},
			all: func() (n int) {
				for p := range pods.Snapshot().All() {
					n += size(p, look)
				}
				return n
			},
			namespace: func(name string) (n int) {
				for p := range pods.Snapshot().Namespace(name) {
					n += size(p, look)
				}
				return n
			},
			label: func(selector labels.Selector) (n int) {
				for p := range pods.Snapshot().Select("", selector) {
					n += size(p, look)
				}
				return n
			},
			node: func(name string) (n int) {
				for p := range nodes.Get(name) {
					n += size(p, look)
				}
				return n
			},
		}
	}
}

// goMap is the floor: a map without a lock or an index, that never changes.
func goMap(b *testing.B, config *rest.Config) cached {
	list, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("").List(b.Context(), metav1.ListOptions{})
	must(b, err)
	pods := make(map[types.NamespacedName]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		p := list.Items[i] // of its own, as in a cache
		pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = &p
	}
	return func(look bool) reader {
		scan := func(is func(*corev1.Pod) bool) (n int) {
			for _, p := range pods {
				if is(p) {
					n += size(p, look)
				}
			}
			return n
		}
		return reader{
			get:       func(key types.NamespacedName) int { return size(pods[key], look) },
			all:       func() int { return scan(func(*corev1.Pod) bool { return true }) },
			namespace: func(name string) int { return scan(func(p *corev1.Pod) bool { return p.Namespace == name }) },
			label: func(s labels.Selector) int {
				return scan(func(p *corev1.Pod) bool { return s.Matches(labels.Set(p.Labels)) })
			},
			node: func(name string) int { return scan(func(p *corev1.Pod) bool { return p.Spec.NodeName == name }) },
		}
	}
}

func clientGo(b *testing.B, config *rest.Config) cached {
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	shared := factory.Core().V1().Pods().Informer()
	must(b, shared.AddIndexers(clientgocache.Indexers{byNode: func(obj any) ([]string, error) { return nodeOf(obj), nil }}))
	lister := corelisters.NewPodLister(shared.GetIndexer())
	ctx, cancel := context.WithCancel(b.Context())
	factory.StartWithContext(ctx)
	b.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !clientgocache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		b.Fatal("not synced")
	}
	return func(look bool) reader {
		sum := func(pods []*corev1.Pod, err error) (n int) {
			must(b, err)
			if !look {
				return len(pods)
			}
			for _, p := range pods {
				n += size(p, look)
			}
			return n
		}
		return reader{
			get: func(key types.NamespacedName) int {
				p, err := lister.Pods(key.Namespace).Get(key.Name)
				must(b, err)
				return size(p, look)
			},
			all:       func() int { return sum(lister.List(labels.Everything())) },
			namespace: func(name string) int { return sum(lister.Pods(name).List(labels.Everything())) },
			label:     func(selector labels.Selector) int { return sum(lister.List(selector)) },
			node: func(name string) (n int) {
				objects, err := shared.GetIndexer().ByIndex(byNode, name)
				must(b, err)
				if !look {
					return len(objects)
				}
				for _, obj := range objects {
					n += size(obj.(*corev1.Pod), look)
				}
				return n
			},
		}
	}
}

func controllerRuntime(deepCopy bool) func(b *testing.B, config *rest.Config) cached {
	return func(b *testing.B, config *rest.Config) cached {
		noCopy := !deepCopy
		c, err := cache.New(config, cache.Options{Scheme: scheme.Scheme, Mapper: podMapper{}, DefaultUnsafeDisableDeepCopy: &noCopy})
		must(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		must(b, c.IndexField(ctx, &corev1.Pod{}, byNode, func(o client.Object) []string { return nodeOf(o) }))
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		b.Cleanup(func() {
			cancel()
			<-ended
		})
		shared, err := c.GetInformer(ctx, &corev1.Pod{})
		must(b, err)
		if !clientgocache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
			b.Fatal("not synced")
		}
		return func(look bool) reader { return controllerRuntimeReader(b, c, look) }
	}
}

func controllerRuntimeReader(b *testing.B, c cache.Cache, look bool) reader {
	list := func(opts ...client.ListOption) (n int) {
		var pods corev1.PodList
		must(b, c.List(b.Context(), &pods, opts...))
		if !look {
			return len(pods.Items)
		}
		for i := range pods.Items {
			n += size(&pods.Items[i], look)
		}
		return n
	}
	return reader{
		get: func(key types.NamespacedName) int {
			var p corev1.Pod
			must(b, c.Get(b.Context(), key, &p))
			return size(&p, look)
		},
		all:       func() int { return list() },
		namespace: func(name string) int { return list(client.InNamespace(name)) },
		label:     func(s labels.Selector) int { return list(client.MatchingLabelsSelector{Selector: s}) },
		node:      func(name string) int { return list(client.MatchingFields{byNode: name}) },
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

type podMapper struct{ meta.RESTMapper }

func (podMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), GroupVersionKind: corev1.SchemeGroupVersion.WithKind(kind.Kind),
		Scope: meta.RESTScopeNamespace,
	}, nil
}

func BenchmarkReads(b *testing.B) {
	for _, count := range []int{5_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("pods=%d", count), func(b *testing.B) { reads(b, count) })
	}
}

func reads(b *testing.B, count int) {
	pods, err := load.NewServer(count, load.Pod)
	must(b, err)
	server := httptest.NewServer(pods)
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
	keys, order := make([]types.NamespacedName, count), rand.New(rand.NewPCG(1, 1)).Perm(count)
	for i, n := range order {
		p := load.Pod(n)
		keys[i] = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	}
	nodes := rand.New(rand.NewPCG(2, 2)).Perm(load.Nodes)
	for _, impl := range []struct {
		name string
		make func(*testing.B, *rest.Config) cached
	}{
		{"map", goMap},
		{"homeostat", homeostat},
		{"client-go", clientGo},
		{"controller-runtime", controllerRuntime(true)},
		{"controller-runtime-no-copy", controllerRuntime(false)},
	} {
		b.Run("impl="+impl.name, func(b *testing.B) {
			made := impl.make(b, config)
			rows(b, "", made(true), keys, nodes)
			rows(b, "-handed-out", made(false), keys, nodes)
		})
	}
}

// rows measures r with keys, and nodes by number, in random order.
func rows(b *testing.B, suffix string, r reader, keys []types.NamespacedName, nodes []int) {
	row := func(name string, read func(i int) int) {
		b.Run(name+suffix, func(b *testing.B) {
			defer reportProcessorTime(b)()
			i := 0
			for b.Loop() {
				if read(i) == 0 {
					b.Fatal("nothing found")
				}
				i++
			}
		})
	}
	count := len(keys)
	row("get", func(i int) int { return r.get(keys[i%count]) })
	row("all", func(int) int { return r.all() })
	row("namespace-100", func(i int) int { return r.namespace(keys[i%count].Namespace) })
	apps := make([]labels.Selector, 64)
	for n := range apps {
		apps[n] = labels.SelectorFromSet(labels.Set{"app": fmt.Sprint("service-", n*count/load.Replicas/len(apps))})
	}
	row("label-50", func(i int) int { return r.label(apps[i%len(apps)]) })
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = load.Node(n)
	}
	row("index", func(i int) int { return r.node(names[i%len(names)]) })
}
