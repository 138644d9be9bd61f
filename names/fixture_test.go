package names_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

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

// listing returns names without UIDs.
func listing(all ...string) []names.Name {
	out := make([]names.Name, 0, len(all))
	for _, s := range all {
		out = append(out, known(s, ""))
	}
	return out
}

// many returns n names of one namespace.
func many(n int) []names.Name {
	out := make([]names.Name, 0, n)
	for i := range n {
		out = append(out, known(fmt.Sprintf("default/name-%06d", i), ""))
	}
	return out
}

// returning is a lister of these names, or of this error.
func returning(all []names.Name, err error) names.Func {
	return func(context.Context) ([]names.Name, error) { return all, err }
}

// fixture is the outside of a sweep: what is live, what a cache has seen of it,
// what an outside system knows, and what was asked in which order.
type fixture struct {
	mu      sync.Mutex // guards the fields below
	live    map[types.NamespacedName]types.UID
	cache   map[types.NamespacedName]types.UID
	known   []names.Name
	syncErr error
	orphans []names.Orphan
	asked   []string
}

func newFixture(live ...string) *fixture {
	f := &fixture{live: map[types.NamespacedName]types.UID{}, cache: map[types.NamespacedName]types.UID{}}
	for _, s := range live {
		f.live[key(s)], f.cache[key(s)] = uid1, uid1
	}
	return f
}

// sweep returns a sweep of the names of l, by default those that the fixture
// knows.
func (f *fixture) sweep(t *testing.T, l names.Lister, o *names.Options) *names.Sweep {
	t.Helper()
	if l == nil {
		l = f
	}
	s, err := names.NewSweep(l, f, o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func (f *fixture) ask(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 || f.asked[len(f.asked)-1] != what {
		f.asked = append(f.asked, what)
	}
}

func (f *fixture) Names(context.Context) ([]names.Name, error) {
	f.ask("names")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known, nil
}

// Sync brings the cache up to date: the watch that a live cluster has.
func (f *fixture) Sync(ctx context.Context) error {
	f.ask("sync")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncErr != nil {
		return f.syncErr
	}
	f.cache = maps.Clone(f.live)
	return ctx.Err()
}

func (f *fixture) Find(k types.NamespacedName) (types.UID, bool) {
	f.ask("find")
	f.mu.Lock()
	defer f.mu.Unlock()
	uid, ok := f.cache[k]
	return uid, ok
}

func (f *fixture) Orphan(o names.Orphan) {
	f.ask("orphan")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans = append(f.orphans, o)
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
