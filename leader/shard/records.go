package shard

import (
	"fmt"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// The labels and annotations of the records. There is one Lease that says how
// the keys are divided, one for each member and one for each slot.
const (
	groupLabel      = "leader.homeostat.dev/shards" // the name of the Lease given to [New]
	kindLabel       = "leader.homeostat.dev/record"
	memberKind      = "member"
	slotKind        = "slot"
	slotLabel       = "leader.homeostat.dev/slot"
	slotsAnnotation = "leader.homeostat.dev/slots"
	hashAnnotation  = "leader.homeostat.dev/hash"
	byAnnotation    = "leader.homeostat.dev/by"
)

// verbs are what the client needs on leases.
const verbs = "get, list, watch, create, update and delete"

// hashName is written down: replicas with another hash must not join.
const hashName = "fnv1a-64+fmix64"

// records names and makes the Leases of the shards.
type records struct {
	client    coordinationclient.LeasesGetter
	namespace string
	name      string
}

func (r records) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: r.name}
}

func (r records) leases() coordinationclient.LeaseInterface { return r.client.Leases(r.namespace) }

func (r records) explain(doing string, err error) error {
	return record.Explain(doing, r.key(), verbs, err)
}

func (r records) memberName(identity string) string { return r.name + "-member-" + identity }

func (r records) slotName(slot int) string { return r.name + "-slot-" + strconv.Itoa(slot) }

func (r records) selector() string {
	return labels.Set{groupLabel: r.name}.String()
}

func (r records) memberLabels() map[string]string {
	return map[string]string{groupLabel: r.name, kindLabel: memberKind}
}

// newSlot is the record of a slot that nobody has had yet.
func (r records) newSlot(slot int) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace,
		Name:      r.slotName(slot),
		Labels:    map[string]string{groupLabel: r.name, kindLabel: slotKind, slotLabel: strconv.Itoa(slot)},
	}}
}

// slotOf is the slot that a record is of.
func (r records) slotOf(lease *coordinationv1.Lease, slots int) (int, bool) {
	if lease.Labels[kindLabel] != slotKind {
		return 0, false
	}
	slot, err := strconv.Atoi(lease.Labels[slotLabel])
	return slot, err == nil && slot >= 0 && slot < slots && lease.Name == r.slotName(slot)
}

// division is the record of how the keys are divided.
func (r records) division(o Options) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace,
		Name:      r.name,
		Annotations: map[string]string{
			slotsAnnotation: strconv.Itoa(o.Slots),
			hashAnnotation:  hashName,
			byAnnotation:    o.By.String(),
		},
	}}
}

// disagreement compares the recorded division with ours.
func disagreement(there, here *coordinationv1.Lease) error {
	var differ []string
	for _, a := range []string{slotsAnnotation, hashAnnotation, byAnnotation} {
		if x, y := there.Annotations[a], here.Annotations[a]; x != y {
			differ = append(differ, fmt.Sprintf("%s is %q there and %q here", a, x, y))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: stop all replicas and delete lease %q before they divide in another way",
		ErrConfig, strings.Join(differ, ", "), here.Name)
}

// identityOf is the identity in the name of a holder.
func identityOf(holder string) string {
	if i := strings.LastIndexByte(holder, '_'); i >= 0 {
		return holder[:i]
	}
	return holder
}

func slotOfKey(key types.NamespacedName, o Options) int {
	text := key.Namespace
	if o.By == ByKey {
		text += "/" + key.Name
	}
	return int(hash64(text) % uint64(o.Slots))
}

// preference is the rendezvous score of a member for a slot.
func preference(identity string, slot int) uint64 {
	return mix(fnv1a(fnv1a(fnvOffset, identity), "/"+strconv.Itoa(slot)))
}

// hash64 is FNV-1a with the finalizer of MurmurHash3, without which similar
// names have similar hashes. It decides on slots, so it is part of what the
// replicas agree on.
func hash64(text string) uint64 { return mix(fnv1a(fnvOffset, text)) }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func fnv1a(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
