package informer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// gapPage is how many objects one request brings.
	gapPage = 500
	// gapTimeout bounds each request.
	gapTimeout = 30 * time.Second
)

// A gap is what the part of the cache that one watch feeds lacks of what the
// server had at one moment.
type gap[T Object] struct {
	reflection *reflection[T]
	only       *types.NamespacedName // nothing else matters; nil for all objects
	version    string                // of the server at that moment
	next       string                // where the list goes on
	pages      int

	listed map[types.NamespacedName]struct{}
	behind map[types.NamespacedName]string // the version to come, or "" for what is to go
}

func newGap[T Object](r *reflection[T], only *types.NamespacedName) *gap[T] {
	return &gap[T]{
		reflection: r, only: only, listed: map[types.NamespacedName]struct{}{}, behind: map[types.NamespacedName]string{},
	}
}

// list takes in one page and tells whether there are more. Without a version,
// the server answers with what is committed, not with what a cache of its own
// has.
func (g *gap[T]) list(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, gapTimeout)
	defer cancel()
	options := metav1.ListOptions{Limit: gapPage, Continue: g.next}
	g.reflection.narrow(&options)
	if g.only != nil {
		options.FieldSelector = selecting(*g.only, options.FieldSelector)
	}
	page, err := g.reflection.source.list(ctx, options)
	if err != nil {
		return false, fmt.Errorf("listing: %w", err)
	}
	about, err := meta.ListAccessor(page)
	if err != nil {
		return false, fmt.Errorf("listing: %w", err)
	}
	g.version, g.next = about.GetResourceVersion(), about.GetContinue()
	g.pages++
	return g.next != "", meta.EachListItem(page, func(object runtime.Object) error {
		if item, ok := object.(T); ok {
			g.compare(item)
		}
		return nil
	})
}

// compare notes an object that is newer at the server.
func (g *gap[T]) compare(item T) {
	key := keyOf(item)
	if g.only != nil && key != *g.only {
		return // fakes do not know field selectors
	}
	g.listed[key] = struct{}{}
	cached, ok := g.reflection.informer.Snapshot().Get(key)
	if !ok || older(cached.GetResourceVersion(), item.GetResourceVersion()) {
		g.behind[key] = item.GetResourceVersion()
	}
}

// compareGone notes the objects that the server has no more; it follows the
// last page.
func (g *gap[T]) compareGone() {
	known := g.reflection.informer.Snapshot()
	if g.only != nil {
		if object, ok := known.Get(*g.only); ok {
			g.compareMissing(object)
		}
		return
	}
	all := known.All()
	if namespace := g.reflection.source.namespace; namespace != "" {
		all = known.Namespace(namespace)
	}
	for object := range all {
		g.compareMissing(object)
	}
}

func (g *gap[T]) compareMissing(cached T) {
	key := keyOf(cached)
	if _, there := g.listed[key]; !there && !older(g.version, cached.GetResourceVersion()) {
		g.behind[key] = ""
	}
}

// selecting returns a field selector of one object, and of what selector wants
// besides.
func selecting(key types.NamespacedName, selector string) string {
	terms := []string{"metadata.name=" + key.Name}
	if key.Namespace != "" {
		terms = append(terms, "metadata.namespace="+key.Namespace)
	}
	if selector != "" {
		terms = append(terms, selector)
	}
	return strings.Join(terms, ",")
}

// reached tells whether the watch has come as far as the server was.
func (g *gap[T]) reached() bool { return !older(g.mark(), g.version) }

// closed tells whether nothing is behind any more.
func (g *gap[T]) closed() bool {
	if g.reached() {
		return true
	}
	known := g.reflection.informer.Snapshot() // it is never ahead of Get
	for key, version := range g.behind {
		cached, ok := known.Get(key)
		switch {
		case version == "" && (!ok || older(g.version, cached.GetResourceVersion())),
			version != "" && ok && !older(cached.GetResourceVersion(), version),
			version != "" && !older(g.mark(), version): // it came, and went again
			delete(g.behind, key)
		}
	}
	return len(g.behind) == 0
}

func (g *gap[T]) mark() string {
	seen := &g.reflection.informer.seen
	seen.mu.Lock()
	defer seen.mu.Unlock()
	return seen.marks[g.reflection.source.namespace]
}

// older tells whether version a is before b. Versions that cannot be compared,
// as those of fakes, are not; no version is before any.
func older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}
