package names_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

const (
	uid1 types.UID = "11111111-1111-1111-1111-111111111111"
	uid2 types.UID = "22222222-2222-2222-2222-222222222222"
)

func key(s string) types.NamespacedName {
	namespace, name, _ := strings.Cut(s, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func known(s string, uid types.UID) names.Name { return names.Name{Key: key(s), UID: uid} }

func keys(all ...string) []types.NamespacedName {
	out := make([]types.NamespacedName, 0, len(all))
	for _, s := range all {
		out = append(out, key(s))
	}
	return out
}

// many returns n keys of one namespace.
func many(n int) []types.NamespacedName {
	out := make([]types.NamespacedName, 0, n)
	for i := range n {
		out = append(out, types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("name-%06d", i)})
	}
	return out
}

// A world is the outside of a sweep: what is live, what a cache has seen of it,
// what an outside system knows, and what was asked in which order.
type world struct {
	mu      sync.Mutex // guards what follows
	live    map[types.NamespacedName]types.UID
	cache   map[types.NamespacedName]types.UID
	known   []types.NamespacedName
	syncErr error
	orphans []names.Orphan
	asked   []string
}

func newWorld(live ...string) *world {
	w := &world{live: map[types.NamespacedName]types.UID{}, cache: map[types.NamespacedName]types.UID{}}
	for _, k := range keys(live...) {
		w.live[k], w.cache[k] = uid1, uid1
	}
	return w
}

func (w *world) ask(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 || w.asked[len(w.asked)-1] != what {
		w.asked = append(w.asked, what)
	}
}

func (w *world) Names(context.Context) ([]types.NamespacedName, error) {
	w.ask("names")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, nil
}

// Sync brings the cache up to date: the watch that a live cluster has.
func (w *world) Sync(ctx context.Context) error {
	w.ask("sync")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.syncErr != nil {
		return w.syncErr
	}
	w.cache = maps.Clone(w.live)
	return ctx.Err()
}

func (w *world) Find(k types.NamespacedName) (types.UID, bool) {
	w.ask("find")
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, ok := w.cache[k]
	return uid, ok
}

func (w *world) Orphan(o names.Orphan) {
	w.ask("orphan")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orphans = append(w.orphans, o)
}

// A store is an informer, as far as package names looks at one.
type store struct {
	err     error
	objects []*corev1.Service
}

func (s *store) WaitForSync(context.Context) error { return s.err }
func (s *store) Snapshot() snapshot                { return snapshot{s.objects} }

type snapshot struct{ objects []*corev1.Service }

func (s snapshot) All() iter.Seq[*corev1.Service] {
	return func(yield func(*corev1.Service) bool) {
		for _, object := range s.objects {
			if !yield(object) {
				return
			}
		}
	}
}

func service(name string, labels map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid1, Labels: labels}}
}
