package shard

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// versionAnnotation holds, in the record of a slot, the version of the division that set its range, unless that is
// the first, and the UID of the configuration's record, since versions from a deleted record are meaningless. Such a
// record has the kind rangeKind, so that replicas that do not support changing ranges neither find nor create it.
//
// rangeAnnotation holds the UID of that record, and the range of the version: a replica that claims the slot by this
// version gets that range, however late it is.
const (
	rangeAnnotation   = "leader.homeostat.dev/range"
	versionAnnotation = "leader.homeostat.dev/division"
)

// stamp is the state of a slot's range in its record.
type stamp struct {
	version string // empty if the range has never changed
	mark    string
}

// stamp returns the stamp in the record of a slot once the range of this division may be claimed.
func (d *division) stamp(slot int) stamp {
	r := d.rangeOf(slot)
	s := stamp{mark: fmt.Sprintf("%s %x-%x", d.uid, r.First, r.Last)}
	if d.since[slot] > 1 {
		s.version = fmt.Sprintf("%d/%s", d.since[slot], d.uid)
	}
	return s
}

// write stamps a record that is about to be written. Records of slots without ranges have no stamp.
func (s stamp) write(lease *coordinationv1.Lease) {
	if s.mark != "" {
		annotate(lease, rangeAnnotation, s.mark)
	}
	if s.version != "" {
		annotate(lease, versionAnnotation, s.version)
		lease.Labels[record.KindLabel] = rangeKind
	}
}

// versionOf returns the version, of this or an earlier or later division, that set the range in a slot's
// record.
func (d *division) versionOf(lease *coordinationv1.Lease) int {
	text, uid, _ := strings.Cut(annotation(lease, versionAnnotation), "/")
	version, err := strconv.Atoi(text)
	if err != nil || uid != d.uid { // missing, or another client's
		return 1
	}
	return version
}

// marked returns the range for the version of a slot's record. known is false if the record does not contain it, or
// another client has edited it.
func (d *division) marked(lease *coordinationv1.Lease) (r keyspace.Range, known bool) {
	uid, bounds, _ := strings.Cut(annotation(lease, rangeAnnotation), " ")
	first, last, _ := strings.Cut(bounds, "-")
	var err, err2 error
	r.First, err = strconv.ParseUint(first, 16, 64)
	r.Last, err2 = strconv.ParseUint(last, 16, 64)
	return r, uid == d.uid && err == nil && err2 == nil
}

// raised reports whether the record of each slot has at least the version of its range: then no owner has an older
// range. The mutex of replica is held.
func (d *division) raised(v *view) bool {
	for slot, since := range d.since {
		if since > 1 && d.versionOf(v.slots[slot].Lease) < since {
			return false
		}
	}
	return true
}

// vacant reports whether no replica has, or can still claim, an earlier range that overlaps that of a slot. A record
// that is still to be raised contains the range with which it can be claimed until then. If it does not, because it
// does not exist or comes from an older build, the slot waits until the record is raised. The mutex of replica is held.
func (d *division) vacant(v *view, slot int) bool {
	wanted := d.rangeOf(slot)
	for other, since := range d.since {
		lease := v.slots[other].Lease
		if since == 1 || d.versionOf(lease) >= since {
			continue
		}
		had, known := d.marked(lease)
		if !known || had.First <= wanted.Last && wanted.First <= had.Last {
			return false
		}
	}
	return true
}

// released returns the record of a slot without its owner, with a stamp. The stamp stays as it was if a request of
// the owner may still arrive: then the range may not be taken in parts, either.
func released(lease *coordinationv1.Lease, quiet time.Duration, now time.Time, next stamp) *coordinationv1.Lease {
	free := record.Released(lease, quiet, now)
	if quiet == 0 {
		next.write(free)
	}
	return free
}

// keysAnnotation holds the keys that the owner of a slot has left, as a list of
// namespace/name in JSON.
const keysAnnotation = "leader.homeostat.dev/keys"

// room bounds the keys in a record.
type room struct{ keys, bytes int }

// leftRoom is for the keys left with a slot, claimRoom for those of all slots that had a range before.
var (
	leftRoom  = room{100, 16 << 10}
	claimRoom = room{400, 64 << 10}
)

// keysOf returns the keys in the record of a slot, which may be nil.
func keysOf(lease *coordinationv1.Lease) (keys []types.NamespacedName) {
	var texts []string
	_ = json.Unmarshal([]byte(annotation(lease, keysAnnotation)), &texts) // another client may have edited it
	for _, text := range texts {
		if namespace, name, ok := strings.Cut(text, "/"); ok {
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return keys
}

// keep writes keys into a record that is about to be written, and returns how many have no room.
func keep(lease *coordinationv1.Lease, keys []types.NamespacedName, most room) (cut int) {
	var texts []string
	size := 0
	for _, key := range keys {
		text := key.String()
		if size += len(text) + len(`"",`); len(texts) == most.keys || size > most.bytes {
			break
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		delete(lease.Annotations, keysAnnotation)
		return len(keys)
	}
	text, _ := json.Marshal(texts) // strings have no errors
	annotate(lease, keysAnnotation, string(text))
	return len(keys) - len(texts)
}

// annotation returns an annotation of a record, which may be nil; empty if it has none.
func annotation(lease *coordinationv1.Lease, name string) string {
	if lease == nil {
		return ""
	}
	return lease.Annotations[name]
}

func annotate(lease *coordinationv1.Lease, name, text string) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[name] = text
}
