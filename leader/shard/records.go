package shard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// The labels and annotations of the records. There is one Lease with the
// configuration, one for each member and one for each slot.
const (
	configKind      = "config"
	slotKind        = "slot"
	rangeKind       = "range" // of a slot, written by earlier builds
	slotLabel       = "leader.homeostat.dev/slot"
	slotsAnnotation = "leader.homeostat.dev/slots"
	hashAnnotation  = "leader.homeostat.dev/hash"
	byAnnotation    = "leader.homeostat.dev/by"
)

const (
	verbs    = "get, list, watch, create, update and delete" // that the client needs on leases
	unowned  = ""                                            // the owner of a slot that may be taken
	hashName = "fnv1a-64+fmix64"                             // recorded: replicas must have the same hash
)

// records reads and writes the Leases of the shards. Its requests do not end
// with their context, and pass the owner's fence.
type records struct {
	client    coordinationclient.LeasesGetter
	namespace string
	name      string
	owner     *leader.Elector
	timeout   time.Duration // of each request
}

func (r records) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: r.name}
}

func (r records) memberName(identity string) string { return record.MemberPrefix(r.name) + identity }

func (r records) slotName(slot int) string { return record.SlotPrefix(r.name) + strconv.Itoa(slot) }

func (r records) selector() string { return labels.Set{record.GroupLabel: r.name}.String() }

// validate checks the parts of the records' names.
func (r records) validate(identity string) error {
	check := option.Of("leader.Lease")
	for _, why := range validation.IsValidLabelValue(r.name) {
		check.Wrong("Name", r.name, "%s", why)
	}
	for _, why := range validation.IsDNS1123Subdomain(r.memberName(identity)) {
		check.Wrong("Identity", identity, "as part of the name %q it is not valid: %s", r.memberName(identity), why)
	}
	return check.Err()
}

// slotOf returns the slot of a record that has the kind of a slot, and false if it is not named like one.
func (r records) slotOf(lease *coordinationv1.Lease, slots int) (int, bool) {
	slot, err := strconv.Atoi(lease.Labels[slotLabel])
	return slot, err == nil && slot >= 0 && slot < slots && lease.Name == r.slotName(slot)
}

func (r records) leases() coordinationclient.LeaseInterface { return r.client.Leases(r.namespace) }

// request returns a context for one request, which does not end with ctx.
func (r records) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(record.WithOwn(ctx, r.owner), r.timeout)
}

// explain wraps an error of the API server and names the way out.
func (r records) explain(doing string, err error) error {
	return record.Explain(doing, r.key(), verbs, err)
}

func (r records) list(ctx context.Context) (*coordinationv1.LeaseList, error) {
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().List(ctx, metav1.ListOptions{LabelSelector: r.selector()})
}

func (r records) read(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().Get(ctx, name, metav1.GetOptions{})
}

// update replaces a record if its resourceVersion is still that of lease.
func (r records) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().Update(ctx, lease, metav1.UpdateOptions{})
}

// newSlot returns the record of a slot that has none.
func (r records) newSlot(slot int) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace,
		Name:      r.slotName(slot),
		Labels:    map[string]string{record.GroupLabel: r.name, record.KindLabel: slotKind, slotLabel: strconv.Itoa(slot)},
	}}
}

// write creates a record that has no resourceVersion, and replaces another one if its
// resourceVersion is still current.
func (r records) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if lease.ResourceVersion != "" {
		return r.update(ctx, lease)
	}
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().Create(ctx, lease, metav1.CreateOptions{})
}

// remove deletes a record if it has not changed since it was read.
func (r records) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// config returns the recorded configuration, which is ours if there was none.
func (r records) config(ctx context.Context, ours map[string]string) (*coordinationv1.Lease, error) {
	lease, err := r.read(ctx, r.name)
	if record.IsNotFound(err, r.name) {
		lease, err = r.write(ctx, r.newConfig(ours))
	}
	if err != nil {
		return nil, r.explain("reading", err)
	}
	return lease, nil
}

// newConfig returns the record of a configuration. The labels let the replicas watch it for changes.
func (r records) newConfig(annotations map[string]string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace, Name: r.name, Annotations: annotations,
		Labels: map[string]string{record.GroupLabel: r.name, record.KindLabel: configKind},
	}}
}

// annotations returns the settings all replicas must agree on.
func (o Options) annotations() map[string]string {
	return map[string]string{
		slotsAnnotation: strconv.Itoa(o.Slots), hashAnnotation: hashName, byAnnotation: o.By.String(),
	}
}

// compare returns an [ErrConfig] if the recorded configuration differs from ours.
func (r records) compare(recorded, ours map[string]string) error {
	var differ []string
	for _, a := range []string{slotsAnnotation, hashAnnotation, byAnnotation} {
		if there, here := recorded[a], ours[a]; there != here {
			differ = append(differ, fmt.Sprintf("%s is %q there and %q here", a, there, here))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: stop all replicas and delete lease %q before changing the configuration",
		ErrConfig, strings.Join(differ, ", "), r.name)
}

// identityOf returns the identity in the name of a holder.
func identityOf(holder string) string {
	if i := strings.LastIndexByte(holder, '_'); i >= 0 {
		return holder[:i]
	}
	return holder
}

// slotOfKey returns the slot of a key. All replicas must agree on it.
func slotOfKey(key types.NamespacedName, o Options) int {
	text := key.Namespace
	if o.By == ByKey {
		text += "/" + key.Name
	}
	return int(mix(keyspace.Of(text)) % uint64(o.Slots))
}

// preference returns the rendezvous score of a member for a slot.
func preference(identity string, slot int) uint64 {
	return mix(keyspace.Of(identity + "/" + strconv.Itoa(slot)))
}

// mix is the finalizer of MurmurHash3. The replicas agree on it. Without it, similar
// names have similar hashes.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
