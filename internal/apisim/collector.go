package apisim

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Collector does the work of the garbage collector, of the namespace
// controller, and of the controllers that protect PersistentVolumes and their
// claims while they are in use. It makes one write at a time, and has no cache
// that could be stale.
type Collector struct {
	server *Server
	idle   int64 // the version of the server at which no work was left
}

// CollectorClient is the name of the client that makes the collector's writes.
const CollectorClient = "collector"

// Collector returns the server's collector. [Collector.Extra] makes it a part
// of a run.
func (s *Server) Collector() *Collector { return &Collector{server: s} }

// Extra returns the scheduler's action that takes one step.
func (c *Collector) Extra() *Extra {
	return &Extra{Name: "collect garbage", Enabled: c.Pending, Do: func() { c.Step() }}
}

// Pending reports whether the collector has a write to make.
func (c *Collector) Pending() bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.idle == s.version {
		return false
	}
	if c.nextWork() != nil {
		return true
	}
	c.idle = s.version
	return false
}

// Step makes one write. It returns false if the collector has no write to make.
func (c *Collector) Step() bool {
	s := c.server
	s.mu.Lock()
	work := c.nextWork()
	if work != nil {
		work()
	}
	s.mu.Unlock()
	s.runHooks()
	return work != nil
}

// Run takes steps until the collector has no write to make.
func (c *Collector) Run() {
	for range 1_000_000 {
		if !c.Step() {
			return
		}
	}
}

// nextWork returns the first write to make, in the order of resources and
// names, or nil.
func (c *Collector) nextWork() func() {
	world := c.snapshot()
	for _, t := range world.tables {
		for _, o := range t.objectsAt(c.server.version) {
			if work := c.workFor(world, t, o); work != nil {
				return work
			}
		}
	}
	return nil
}

// world is the collector's snapshot of all objects.
type world struct {
	tables []*table
	byUID  map[string]*stored
	owned  map[string][]owned // the owned objects, by the owner's UID
}

type owned struct {
	table  *table
	object *stored
	blocks bool
}

type ownerRef struct {
	uid, apiVersion, kind, name string
	blocks                      bool
}

func (c *Collector) snapshot() *world {
	s := c.server
	w := &world{tables: s.ordered, byUID: map[string]*stored{}, owned: map[string][]owned{}}
	for _, t := range w.tables {
		for _, o := range t.objectsAt(s.version) {
			w.byUID[text(o.meta(), "uid")] = o
			for _, ref := range ownersOf(o) {
				w.owned[ref.uid] = append(w.owned[ref.uid], owned{table: t, object: o, blocks: ref.blocks})
			}
		}
	}
	return w
}

func ownersOf(o *stored) []ownerRef {
	list, _ := o.meta()["ownerReferences"].([]any)
	var refs []ownerRef
	for _, v := range list {
		if ref, ok := v.(object); ok {
			blocks, _ := ref["blockOwnerDeletion"].(bool)
			refs = append(refs, ownerRef{
				uid: text(ref, "uid"), apiVersion: text(ref, "apiVersion"), kind: text(ref, "kind"), name: text(ref, "name"),
				blocks: blocks,
			})
		}
	}
	return refs
}

func (c *Collector) workFor(w *world, t *table, o *stored) func() {
	deleting := o.meta()["deletionTimestamp"] != nil
	switch {
	case deleting && slices.Contains(finalizersOf(o.obj), metav1.FinalizerOrphanDependents):
		return c.orphan(w, t, o)
	case deleting && slices.Contains(finalizersOf(o.obj), metav1.FinalizerDeleteDependents):
		if slices.ContainsFunc(w.owned[text(o.meta(), "uid")], func(d owned) bool { return d.blocks }) {
			break // its dependents must be collected first
		}
		return func() { c.unfinalize(t, o, metav1.FinalizerDeleteDependents) }
	case deleting && t.res.Group == "" && t.res.Resource == "namespaces":
		if work := c.emptyNamespace(w, t, o); work != nil {
			return work
		}
	}
	if deleting && isStorage(&t.res) {
		return c.unprotect(w, t, o)
	}
	if deleting {
		return nil
	}
	return c.collectDependent(w, t, o)
}

// resolve finds the table of the kind that a reference names. It returns false
// if the kind is not served, or if its objects cannot own o. In these cases,
// the real collector does not delete o.
func (w *world) resolve(ref ownerRef, o *stored) (*table, bool) {
	version, err := schema.ParseGroupVersion(ref.apiVersion)
	for _, t := range w.tables {
		if err == nil && t.res.Group == version.Group && t.res.Kind == ref.kind {
			return t, !t.res.Namespaced || o.key.Namespace != ""
		}
	}
	return nil, false
}

// owner returns the object with the reference's kind, name and UID. It returns
// nil if there is no such object, or if it is in another namespace than o.
func (w *world) owner(t *table, ref ownerRef, o *stored) *stored {
	owner := w.byUID[ref.uid]
	if owner == nil || owner.key.Name != ref.name || t.objects[owner.key] != owner ||
		owner.key.Namespace != "" && owner.key.Namespace != o.key.Namespace {
		return nil
	}
	return owner
}

// collectDependent returns a write that deletes an object if each of its owners
// is deleted, or is being deleted in the foreground. If another owner still
// exists, the write removes the references to those owners instead. If the
// object and its owners wait for each other, the write unblocks the owners; see
// unblock. It returns nil if there is nothing to do.
func (c *Collector) collectDependent(w *world, t *table, o *stored) func() {
	var solid, absent, waiting []string
	for _, ref := range ownersOf(o) {
		kind, resolved := w.resolve(ref, o)
		if !resolved {
			return nil
		}
		owner := w.owner(kind, ref, o)
		switch {
		case owner == nil:
			absent = append(absent, ref.uid)
		case owner.meta()["deletionTimestamp"] != nil && slices.Contains(finalizersOf(owner.obj),
			metav1.FinalizerDeleteDependents):
			waiting = append(waiting, ref.uid)
		default:
			solid = append(solid, ref.uid)
		}
	}
	lost := slices.Concat(absent, waiting)
	switch {
	case len(lost) == 0:
		return nil
	case len(solid) > 0:
		return func() { c.disown(t, o, lost) }
	}
	policy := metav1.DeletePropagationBackground
	if own := w.owned[text(o.meta(), "uid")]; len(waiting) > 0 && len(own) > 0 {
		policy = metav1.DeletePropagationForeground
		blocks := slices.ContainsFunc(ownersOf(o), func(ref ownerRef) bool { return ref.blocks })
		if blocks && slices.ContainsFunc(own, func(d owned) bool {
			return slices.Contains(finalizersOf(d.object.obj), metav1.FinalizerDeleteDependents)
		}) {
			return func() { c.unblock(t, o) } // the owners wait for each other
		}
	}
	return func() { c.remove(t, o, policy) }
}

func (c *Collector) orphan(w *world, t *table, o *stored) func() {
	uid := text(o.meta(), "uid")
	if dependents := w.owned[uid]; len(dependents) > 0 {
		return func() { c.disown(dependents[0].table, dependents[0].object, []string{uid}) }
	}
	return func() { c.unfinalize(t, o, metav1.FinalizerOrphanDependents) }
}

// emptyNamespace returns a write that deletes an object in a terminating
// namespace. If the namespace is empty, the write removes the finalizers in its
// spec, and deletes the namespace if no other finalizer remains. It returns nil
// while objects of the namespace are being deleted.
func (c *Collector) emptyNamespace(w *world, t *table, ns *stored) func() {
	waits := false
	pods := slices.ContainsFunc(w.tables, func(t *table) bool {
		return isPod(&t.res) && slices.ContainsFunc(t.objectsAt(c.server.version), func(o *stored) bool {
			return o.key.Namespace == ns.key.Name
		})
	})
	for _, contents := range w.tables {
		if pods && !isPod(&contents.res) {
			continue // the real server deletes the pods first
		}
		for _, o := range contents.objectsAt(c.server.version) {
			if o.key.Namespace != ns.key.Name {
				continue
			}
			if o.meta()["deletionTimestamp"] == nil {
				return func() { c.remove(contents, o, metav1.DeletePropagationBackground) }
			}
			waits = true
		}
	}
	if waits {
		return nil
	}
	if len(asObject(ns.obj["spec"])) == 0 {
		return nil // it is empty and waits for finalizers in its metadata
	}
	return func() {
		obj := clone(ns.obj)
		obj["spec"] = object{}
		if len(finalizersOf(obj)) == 0 {
			c.write(t, ns, obj, true)
			return
		}
		_ = subresource{c.exchange(t, ns, "update")}.overwrite(ns, obj)
	}
}

// exchange returns an exchange for a call of the collector about one object.
func (c *Collector) exchange(t *table, o *stored, verb string) *exchange {
	return &exchange{s: &c.server.store, t: t, r: &request{Call: Call{
		Client: CollectorClient, Verb: verb, Resource: t.res.GVR(), Namespace: o.key.Namespace, Name: o.key.Name,
	}}}
}

func (c *Collector) remove(t *table, o *stored, policy metav1.DeletionPropagation) {
	uid := types.UID(text(o.meta(), "uid"))
	_, _ = c.exchange(t, o, "delete").deleteObject(o, &metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid},
	})
}

func (c *Collector) disown(t *table, o *stored, uids []string) {
	obj := clone(o.obj)
	m := metaOf(obj)
	list, _ := m["ownerReferences"].([]any)
	list = slices.DeleteFunc(list, func(v any) bool {
		ref, _ := v.(object)
		return slices.Contains(uids, text(ref, "uid"))
	})
	m["ownerReferences"] = list
	c.write(t, o, obj, false)
}

// unblock sets blockOwnerDeletion to false in all owner references of o. The
// owners can then be deleted before o.
func (c *Collector) unblock(t *table, o *stored) {
	obj := clone(o.obj)
	list, _ := metaOf(obj)["ownerReferences"].([]any)
	for _, ref := range list {
		asObject(ref)["blockOwnerDeletion"] = false
	}
	c.write(t, o, obj, false)
}

func (c *Collector) unfinalize(t *table, o *stored, finalizer string) {
	obj := clone(o.obj)
	m := metaOf(obj)
	list, _ := m["finalizers"].([]any)
	m["finalizers"] = slices.DeleteFunc(list, func(v any) bool { return v == finalizer })
	c.write(t, o, obj, false)
}

// write commits a change. If final is set, it commits the deletion of the
// object.
func (c *Collector) write(t *table, current *stored, obj object, final bool) {
	x := c.exchange(t, current, "update")
	if final {
		x.s.version++
		x.s.commit(t, x.r, current, nil)
		return
	}
	_, _ = x.replace(current, obj)
}

// unprotect returns a write that removes the protecting finalizer from storage
// that is being deleted and is no longer in use. Otherwise it returns nil.
func (c *Collector) unprotect(w *world, t *table, o *stored) func() {
	f := protection(&t.res)
	if !slices.Contains(finalizersOf(o.obj), f) || inUse(w, t, o) {
		return nil
	}
	return func() { c.unfinalize(t, o, f) }
}

func isStorage(r *Resource) bool {
	return r.Group == "" && (r.Resource == "persistentvolumeclaims" || r.Resource == "persistentvolumes")
}

// inUse reports whether storage is in use. A claim is in use if a Pod on a node
// mounts it, even if the Pod has ended. A volume is in use if a claim is bound
// to it.
func inUse(w *world, t *table, o *stored) bool {
	if t.res.Resource == "persistentvolumes" {
		return find(o.obj, "status.phase") == "Bound"
	}
	for _, pods := range w.tables {
		if !isPod(&pods.res) {
			continue
		}
		for _, pod := range pods.objects {
			if pod.key.Namespace != o.key.Namespace || find(pod.obj, "spec.nodeName") == nil {
				continue
			}
			volumes, _ := find(pod.obj, "spec.volumes").([]any)
			if slices.ContainsFunc(volumes, func(v any) bool {
				return find(asObject(v), "persistentVolumeClaim.claimName") == o.key.Name
			}) {
				return true
			}
		}
	}
	return false
}
