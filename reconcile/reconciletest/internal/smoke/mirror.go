package smoke

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// commit is one write by any client, as a watch shows it.
type commit struct {
	resource apisim.Resource
	key      types.NamespacedName
	version  uint64
	old, new *unstructured.Unstructured // the object before and after the write; nil if it did not exist
	time     time.Time
}

func (c *commit) words() string {
	verb, obj := "update", c.new
	switch {
	case c.new == nil:
		verb, obj = "delete", c.old
	case c.old == nil:
		verb = "create"
	}
	return verb + " " + c.resource.GVR().GroupResource().String() + " " + state.KeyOf(obj)
}

// mirror has a copy of all objects of a server, and the history of writes.
// Watches keep it up to date.
type mirror struct {
	mu       sync.Mutex // guards the fields below, and the tables
	tables   map[schema.GroupVersionResource]*mirrored
	history  []*commit                     // the writes that drain has not returned yet
	followed map[schema.GroupResource]bool // the resources that the program, the case or the workload reads or writes
}

// mirrored has the objects of one resource. It is the store of a reflector.
type mirrored struct {
	m        *mirror
	resource apisim.Resource
	objects  map[types.NamespacedName]*unstructured.Unstructured
	version  uint64
	synced   bool
	last     *commit
}

// newMirror starts watches for the resources. stop ends them, and returns when
// all their goroutines have ended.
func newMirror(ctx context.Context, client dynamic.Interface, resources []apisim.Resource) (m *mirror, stop func()) {
	m = &mirror{tables: map[schema.GroupVersionResource]*mirrored{}, followed: map[schema.GroupResource]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	quiet := logr.Discard() // unsynced reports all that matters
	for _, r := range resources {
		table := &mirrored{m: m, resource: r, objects: map[types.NamespacedName]*unstructured.Unstructured{}}
		m.tables[r.GVR()] = table
		resource := client.Resource(r.GVR())
		lw := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(ctx, o)
			},
		}, client)
		reflector := toolscache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, table, toolscache.ReflectorOptions{
			Name: "reconciletest", TypeDescription: r.Kind, Logger: &quiet,
		})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	return m, func() {
		cancel()
		running.Wait()
	}
}

// unsynced returns the resources that have not been listed yet, sorted.
func (m *mirror) unsynced() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for gvr, t := range m.tables {
		if !t.synced {
			names = append(names, gvr.GroupResource().String())
		}
	}
	slices.Sort(names)
	return names
}

// drain returns the writes that the watches have shown since the last call, in
// order.
func (m *mirror) drain() []*commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	commits := m.history
	m.history = nil
	slices.SortStableFunc(commits, func(a, b *commit) int { return cmp.Compare(a.version, b.version) })
	return commits
}

// follow adds a resource to the followed ones. Only followed resources are
// judged.
func (m *mirror) follow(r schema.GroupResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.followed[r] = true
}

// follows reports whether the mirror follows a resource, such as "jobs.batch".
func (m *mirror) follows(short string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.followed[schema.ParseGroupResource(short)]
}

// lastCommit returns the last write to a followed resource, or nil if there was
// no such write.
func (m *mirror) lastCommit() *commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	var last *commit
	for gvr, t := range m.tables {
		if t.last != nil && m.followed[gvr.GroupResource()] && (last == nil || t.last.time.After(last.time)) {
			last = t.last
		}
	}
	return last
}

// object returns the newest object with the given key. It returns nil if there
// is no such object, or if its resource cannot be watched.
func (m *mirror) object(r schema.GroupResource, key types.NamespacedName) *unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.table(r); t != nil {
		return t.objects[key]
	}
	return nil
}

// table returns the table of the version of r that is watched, or nil. mu must
// be held.
func (m *mirror) table(r schema.GroupResource) *mirrored {
	for gvr, t := range m.tables {
		if gvr.GroupResource() == r {
			return t
		}
	}
	return nil
}

// shows reports whether the watches have delivered a write. It returns true if
// no watch can show the write.
func (m *mirror) shows(w *write) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table(w.call.Resource.GroupResource())
	switch {
	case t == nil:
		return true
	case w.version > 0:
		return t.version >= w.version
	case w.call.Verb == "delete" && w.uid != "":
		o := t.objects[w.key()]
		return o == nil || o.GetUID() != w.uid
	}
	return true
}

// uids returns the UIDs of all objects.
func (m *mirror) uids() map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := map[types.UID]bool{}
	for _, t := range m.tables {
		for _, o := range t.objects {
			uids[o.GetUID()] = true
		}
	}
	return uids
}

// unfinished describes an object that the cluster still has to delete. It
// returns "" if there is no such object. It ignores the objects in older, which
// existed before the trial.
func (m *mirror) unfinished(older map[types.UID]*unstructured.Unstructured) string {
	uids := m.uids()
	m.mu.Lock()
	defer m.mu.Unlock()
	for gvr, t := range m.tables {
		for _, o := range t.objects {
			name := gvr.GroupResource().String() + " " + state.KeyOf(o)
			switch {
			case older[o.GetUID()] != nil:
			case m.orphaned(o, uids):
				return name + " is not garbage-collected although its owner is deleted"
			case o.GetDeletionTimestamp() != nil && waitsForServer(o):
				return name + " is being deleted, but does not disappear"
			}
		}
	}
	return ""
}

// orphaned reports whether the object has owner references and all owners are
// deleted. It returns false if objects of an owner's kind are not watched,
// because such an owner may exist. The lock must be held.
func (m *mirror) orphaned(o *unstructured.Unstructured, uids map[types.UID]bool) bool {
	owners := o.GetOwnerReferences()
	for _, owner := range owners {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if group == owner.APIVersion {
			group = ""
		}
		if uids[owner.UID] || !m.watches(schema.GroupKind{Group: group, Kind: owner.Kind}) {
			return false
		}
	}
	return len(owners) > 0
}

func (m *mirror) watches(kind schema.GroupKind) bool {
	for _, t := range m.tables {
		if t.resource.Group == kind.Group && t.resource.Kind == kind.Kind {
			return true
		}
	}
	return false
}

// waitsForServer reports whether only the server's own controllers delay the
// deletion of an object.
func waitsForServer(o *unstructured.Unstructured) bool {
	own := []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, string(corev1.FinalizerKubernetes)}
	return !slices.ContainsFunc(o.GetFinalizers(), func(f string) bool { return !slices.Contains(own, f) })
}

// Add stores a new object.
func (t *mirrored) Add(obj any) error { return t.put(obj) }

// Update stores a changed object.
func (t *mirrored) Update(obj any) error { return t.put(obj) }

func (t *mirrored) put(obj any) error {
	o, err := read(obj)
	if err != nil {
		return err
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.set(o)
	return nil
}

// set stores an object. The lock must be held.
func (t *mirrored) set(o *unstructured.Unstructured) {
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	old := t.objects[key]
	t.objects[key] = o
	t.commit(&commit{key: key, version: versionOf(o), old: old, new: o})
}

// Delete removes an object.
func (t *mirrored) Delete(obj any) error {
	o, err := read(obj)
	if err != nil {
		return err
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.drop(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, versionOf(o))
	return nil
}

// drop removes an object. The lock must be held.
func (t *mirrored) drop(key types.NamespacedName, version uint64) {
	old := t.objects[key]
	if old == nil {
		return
	}
	delete(t.objects, key)
	t.commit(&commit{key: key, version: version, old: old})
}

func (t *mirrored) commit(c *commit) {
	c.resource, c.time = t.resource, time.Now()
	t.version = max(t.version, c.version)
	t.last = c
	t.m.history = append(t.m.history, c)
}

// Replace stores a list. It removes objects that are not in the list, because
// they were deleted.
func (t *mirrored) Replace(list []any, version string) error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	listed, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the resourceVersion of a list of %s: %w", t.resource.Resource, err)
	}
	present := map[types.NamespacedName]bool{}
	for _, obj := range list {
		o, err := read(obj)
		if err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		present[key] = true
		if old := t.objects[key]; old == nil || old.GetResourceVersion() != o.GetResourceVersion() {
			t.set(o)
		}
	}
	for key := range t.objects {
		if !present[key] {
			t.drop(key, listed)
		}
	}
	t.version, t.synced = max(t.version, listed), true
	return nil
}

// Resync does nothing, because the mirror has no handlers.
func (t *mirrored) Resync() error { return nil }

func read(obj any) (*unstructured.Unstructured, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("reading an event: it contains a %T", obj)
	}
	return o, nil
}

func versionOf(o *unstructured.Unstructured) uint64 { return parseVersion(o.GetResourceVersion()) }

func parseVersion(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64)
	return v
}
