package reconcile

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/queue"
)

// The thresholds of a hot loop.
const (
	// suspicious is how many writes to one object, at most calm apart, make the
	// detector compare them.
	suspicious = 5
	// patience is how many writes in a row may repeat the last one.
	patience = 5
	// calm is the time without a write after which an object is forgotten: the next
	// edit of another client is isolated, and is repaired at once. The time for which
	// the key was slowed down does not count.
	calm = 10 * time.Second
	// The delay of a key starts at slowest>>6 and doubles up to slowest.
	slowest = time.Minute
	// tracked bounds the number of objects that are remembered.
	tracked = 10_000
)

// loopDetector detects hot loops: a controller that writes the same change to an
// object again and again, because another client undoes it, or different values to
// the same fields, triggered only by its own writes.
//
// It remembers objects by UID, so that a recreated object starts fresh.
type loopDetector struct {
	manager string

	mu      sync.Mutex // guards the fields below
	objects map[types.UID]*writeStreak
	echoes  map[Key][]string // the resourceVersions that a key's last reconcile wrote
}

// writeStreak is the detector's record of one object's writes.
type writeStreak struct {
	writes  int
	last    time.Time
	paths   []string
	digest  uint64
	repeats int
	slowed  time.Duration // for how long the last write delayed the key
	newest  metav1.Object // as it was last written; nil if there are few writes
}

// hotLoop is a hot loop about one object.
type hotLoop struct {
	object  metav1.Object
	paths   []string
	rival   string // the other field manager, if there is one
	repeats int
}

// delay returns for how long to hold the key, at most a minute.
func (l hotLoop) delay() time.Duration {
	return slowest >> max(6-(l.repeats-patience), 0)
}

// String names the object, the fields and the other field manager, without values.
func (l hotLoop) String() string {
	text := fmt.Sprintf("%s/%s: fields %s were written %d times in a row",
		l.object.GetNamespace(), l.object.GetName(), strings.Join(l.paths, ", "), l.repeats)
	if l.rival != "" {
		text += fmt.Sprintf("; field manager %q writes them too", l.rival)
	}
	return text
}

// observe records the writes of one reconcile and returns the worst loop among
// them, if any.
func (d *loopDetector) observe(item queue.Item[Key], writes []write) (worst hotLoop, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.onlyOwnWrites(item)
	d.remember(item.Key(), writes)
	for _, w := range writes {
		if l := d.judge(w, own); l.repeats > worst.repeats {
			worst = l
		}
	}
	return worst, worst.repeats > 0
}

// onlyOwnWrites reports whether the last writes of the key are the only causes of
// the reconcile.
func (d *loopDetector) onlyOwnWrites(item queue.Item[Key]) bool {
	written := d.echoes[item.Key()]
	if len(written) == 0 {
		return false
	}
	causes := item.Causes()
	for _, c := range causes {
		if !slices.Contains(written, c.NewVersion) {
			return false
		}
	}
	return len(causes) > 0
}

// remember records the resourceVersions that the key's reconcile wrote, to
// recognise the events that they cause.
func (d *loopDetector) remember(key Key, writes []write) {
	if len(writes) == 0 {
		delete(d.echoes, key)
		return
	}
	if d.echoes == nil {
		d.echoes, d.objects = map[Key][]string{}, map[types.UID]*writeStreak{}
	}
	versions := make([]string, 0, len(writes))
	for _, w := range writes {
		versions = append(versions, w.object.GetResourceVersion())
	}
	if len(d.echoes) < tracked {
		d.echoes[key] = versions
	}
}

// judge adds w to the streak of its object and returns the loop that the object is
// in, the zero value for none. own reports whether the reconcile had no other cause than the last
// writes of its key.
func (d *loopDetector) judge(w write, own bool) hotLoop {
	if w.deleted || w.object.GetUID() == "" {
		return hotLoop{}
	}
	if _, ok := d.objects[w.object.GetUID()]; !ok && w.before == nil {
		return hotLoop{} // created
	}
	h := d.streak(w.object.GetUID())
	if h == nil {
		return hotLoop{}
	}
	now := time.Now()
	if h.isOver(now) {
		*h = writeStreak{}
	}
	h.last = now
	before := w.before
	if before == nil { // the watch was faster than the answer
		before = h.newest
	}
	if h.writes++; h.writes >= suspicious-1 {
		h.newest = w.object
	}
	if h.writes < suspicious || before == nil {
		return hotLoop{}
	}
	paths, digest := changes(before, w.object)
	if w.before == nil && len(paths) == 0 {
		return hotLoop{} // undone in between, unseen
	}
	if slices.Equal(paths, h.paths) && (digest == h.digest || own) {
		h.repeats++
	} else {
		h.repeats = 1
	}
	h.paths, h.digest = paths, digest
	if h.repeats <= patience || len(paths) == 0 {
		h.slowed = 0
		return hotLoop{}
	}
	loop := hotLoop{object: w.object, paths: paths, rival: rivalOf(before, d.manager), repeats: h.repeats}
	h.slowed = loop.delay()
	return loop
}

// streak returns the record of an object, nil if there are too many others.
func (d *loopDetector) streak(uid types.UID) *writeStreak {
	h, ok := d.objects[uid]
	if ok {
		return h
	}
	if len(d.objects) >= tracked {
		now := time.Now()
		maps.DeleteFunc(d.objects, func(_ types.UID, h *writeStreak) bool { return h.isOver(now) })
	}
	if len(d.objects) >= tracked {
		return nil
	}
	h = &writeStreak{}
	d.objects[uid] = h
	return h
}

// isOver reports whether the next write begins a new streak.
func (h *writeStreak) isOver(now time.Time) bool { return now.Sub(h.last) > calm+h.slowed }

// rivalOf returns the other field manager that changed the object last, if any.
func rivalOf(object metav1.Object, us string) string {
	var newest metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != us && (newest.Time == nil || !entry.Time.Before(newest.Time)) {
			newest = entry
		}
	}
	return newest.Manager
}

// clientMetadata lists the metadata fields that clients write.
var clientMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// changes returns the paths of the fields that differ between two states of an
// object, sorted, and a digest of their new values, without the fields that the
// server sets at every write. A list is one field.
func changes(before, after metav1.Object) (paths []string, digest uint64) {
	before, after = decoded(before, after), decoded(after, before)
	if before == nil || after == nil {
		return nil, 0
	}
	p, err := diff.Compare(before, after)
	if err != nil || p.Data == nil {
		return nil, 0
	}
	var changed map[string]any
	_ = json.Unmarshal(p.Data, &changed) // it is JSON
	delete(changed, "apiVersion")
	delete(changed, "kind")
	if metadata, ok := changed["metadata"].(map[string]any); ok {
		maps.DeleteFunc(metadata, func(name string, _ any) bool { return !slices.Contains(clientMetadata, name) })
	}
	paths = leaves("", changed, nil)
	slices.Sort(paths)
	encoded, _ := json.Marshal(changed) // sorts its keys
	hash := fnv.New64a()
	_, _ = hash.Write(encoded)
	return paths, hash.Sum64()
}

// decoded returns an object of an answer with the Go type of like, nil if the
// answer is not a whole object. Other objects are returned as they are.
func decoded(object, like metav1.Object) metav1.Object {
	got, ok := object.(*answer.Object)
	if !ok {
		return object
	}
	into := metav1.Object(&unstructured.Unstructured{})
	if _, both := like.(*answer.Object); !both {
		into = reflect.New(reflect.TypeOf(like).Elem()).Interface().(metav1.Object)
	}
	if got.Into(into) != nil {
		return nil
	}
	return into
}

// leaves appends the path of each field that a merge patch sets or removes.
func leaves(path string, changed map[string]any, to []string) []string {
	for name, value := range changed {
		below := strings.TrimPrefix(path+"."+name, ".")
		if deeper, ok := value.(map[string]any); ok && (len(deeper) > 0 || below == "metadata") {
			to = leaves(below, deeper, to)
			continue
		}
		to = append(to, below)
	}
	return to
}
