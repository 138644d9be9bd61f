package fleet

import (
	"context"
	"errors"
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
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// The labels and annotations of the records. There is one Lease for the
// configuration, one for each member, and one for each slot.
const (
	configKind      = "config"
	slotKind        = "slot"
	rangeKind       = "range" // a slot's record, written by earlier builds
	slotLabel       = "leader.homeostat.dev/slot"
	SlotsAnnotation = "leader.homeostat.dev/slots"
	HashAnnotation  = "leader.homeostat.dev/hash"
	ByAnnotation    = "leader.homeostat.dev/by"
)

// Verbs are the verbs on leases that the client needs.
const Verbs = "get, list, watch, create, update and delete"

// Records reads and writes the Leases of the shards. A request continues after
// its context has ended, until Timeout has passed. The fence of Owner does not
// check these requests.
type Records struct {
	Client    coordinationclient.LeasesGetter
	Namespace string
	Name      string
	Owner     *leader.Elector
	Timeout   time.Duration // the time limit of each request
}

// Key returns the namespace and name of the record of the configuration.
func (r Records) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// MemberName returns the name of the record of a member.
func (r Records) MemberName(identity string) string { return record.MemberPrefix(r.Name) + identity }

// SlotName returns the name of the record of a slot.
func (r Records) SlotName(slot int) string { return record.SlotPrefix(r.Name) + strconv.Itoa(slot) }

func (r Records) selector() string { return labels.Set{record.GroupLabel: r.Name}.String() }

// Validate returns the mistakes in the names of the records. The name of a
// member's record contains the Lease's name and the member's identity.
func (r Records) Validate(identity string) error {
	check := option.Of("leader.Lease")
	for _, problem := range validation.IsValidLabelValue(r.Name) {
		check.Wrong("Name", r.Name, "%s", problem)
	}
	for _, problem := range validation.IsDNS1123Subdomain(r.MemberName(identity)) {
		check.Wrong("Identity", identity, "leads to the invalid name %q: %s", r.MemberName(identity), problem)
	}
	return check.Err()
}

// slotOf returns the slot of a record whose kind is slot. It reports false if
// the record's name does not name a slot. The label does not count, because a
// person may have removed or changed it.
func (r Records) slotOf(lease *coordinationv1.Lease, slots int) (int, bool) {
	slot, err := strconv.Atoi(strings.TrimPrefix(lease.Name, record.SlotPrefix(r.Name)))
	return slot, err == nil && slot >= 0 && slot < slots && lease.Name == r.SlotName(slot)
}

// kindOf returns the kind of a record of the group. It follows from the name,
// because a person may have removed or changed the label. It is "" if the name
// is not one that the group uses.
func (r Records) kindOf(lease *coordinationv1.Lease) string {
	switch {
	case lease.Name == r.Name:
		return configKind
	case strings.HasPrefix(lease.Name, record.MemberPrefix(r.Name)):
		return record.MemberKind
	case strings.HasPrefix(lease.Name, record.SlotPrefix(r.Name)):
		return slotKind
	}
	return ""
}

// Relabel puts back the labels that another client has removed from a record.
// The replicas then see it again. lease is the record as it is, and wanted has
// its labels. Relabel changes nothing if the record has all of these labels, or
// if one of them has a different value.
//
// Relabel returns [ErrUnlabelled] if a label has a different value, except for
// the value that earlier builds wrote, and otherwise the error of the request.
func (r Records) Relabel(ctx context.Context, lease, wanted *coordinationv1.Lease) error {
	labelled := lease.DeepCopy()
	for label, value := range wanted.Labels {
		switch current, ok := lease.Labels[label]; {
		case !ok:
			metav1.SetMetaDataLabel(&labelled.ObjectMeta, label, value)
		case current != value && current != rangeKind:
			return fmt.Errorf("%w: label %s of lease %q is %q", ErrUnlabelled, label, lease.Name, current)
		}
	}
	if len(labelled.Labels) == len(lease.Labels) {
		return nil
	}
	klog.FromContext(ctx).Info("labels were removed from a shard record, restoring them",
		"lease", lease.Name)
	_, err := r.Update(ctx, labelled)
	return err
}

// ErrUnlabelled means that a Lease has the name of a record but not the labels
// of the shards, so it may belong to another program.
var ErrUnlabelled = errors.New("a lease with the name of a shard record does not have the labels of the shards, " +
	"so no replica takes it: restore the labels, or delete the lease if nothing uses it")

func (r Records) leases() coordinationclient.LeaseInterface { return r.Client.Leases(r.Namespace) }

// request returns a context for one request. The end of ctx does not cancel the
// request. Only its timeout does.
func (r Records) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(record.WithOwn(ctx, r.Owner), r.Timeout)
}

// Explain wraps an error of the API server. doing says what the request was
// for, such as "reading". The result says what an administrator can do about
// the error, for example which verbs to grant.
func (r Records) Explain(doing string, err error) error {
	return record.Explain(doing, r.Key(), Verbs, record.Informed(r.Client, err))
}

// List returns all records.
func (r Records) List(ctx context.Context) (*coordinationv1.LeaseList, error) {
	ctx, end := r.request(ctx)
	defer end()
	return record.List(ctx, r.leases(), r.selector())
}

// Read reads the record with this name.
func (r Records) Read(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	ctx, end := r.request(ctx)
	defer end()
	return record.Get(ctx, r.leases(), name)
}

// ConfirmEnded returns nil if the server says that the term of a holder has
// ended: its member's record does not exist, or has another holder.
func (r Records) ConfirmEnded(ctx context.Context, holder string) error {
	name := r.MemberName(plan.IdentityOf(holder))
	switch lease, err := r.Read(ctx, name); {
	case record.IsNotFound(err, name):
		return nil
	case err != nil:
		return fmt.Errorf("reading record %q of a member: %w", name, err)
	case record.Holder(lease) == holder:
		return fmt.Errorf("the list of records lacks %q, although its replica is still a member", name)
	}
	return nil
}

// Update replaces a record if its resourceVersion is still the one in lease.
func (r Records) Update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := r.request(ctx)
	defer end()
	return record.Update(ctx, r.leases(), lease)
}

// NewSlot returns a record for a slot whose record does not exist.
func (r Records) NewSlot(slot int) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace,
		Name:      r.SlotName(slot),
		Labels:    map[string]string{record.GroupLabel: r.Name, record.KindLabel: slotKind, slotLabel: strconv.Itoa(slot)},
	}}
}

// Write creates a record if lease has no resourceVersion. Otherwise it replaces
// the record, if its resourceVersion is still the one in lease.
func (r Records) Write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if lease.ResourceVersion != "" {
		return r.Update(ctx, lease)
	}
	ctx, end := r.request(ctx)
	defer end()
	return record.Create(ctx, r.leases(), lease)
}

// Remove deletes a record if it has not changed since it was read.
func (r Records) Remove(ctx context.Context, lease *coordinationv1.Lease) error {
	ctx, end := r.request(ctx)
	defer end()
	return r.leases().Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
}

// Config returns the recorded configuration. If there is no record, it records
// and returns settings, the configuration of this replica.
func (r Records) Config(ctx context.Context, settings map[string]string) (*coordinationv1.Lease, error) {
	lease, err := r.Read(ctx, r.Name)
	if record.IsNotFound(err, r.Name) {
		lease, err = r.Write(ctx, r.NewConfig(settings))
	}
	if err != nil {
		return nil, r.Explain("reading", err)
	}
	if err := r.Relabel(ctx, lease, r.NewConfig(nil)); err != nil {
		return nil, r.Explain("labelling", err)
	}
	return lease, nil
}

// NewConfig returns the record of a configuration. Its labels let the replicas
// watch it for changes.
func (r Records) NewConfig(annotations map[string]string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: r.Name, Annotations: annotations,
		Labels: map[string]string{record.GroupLabel: r.Name, record.KindLabel: configKind},
	}}
}

// Compare returns an [ErrConfig] if the recorded configuration differs from
// settings, the configuration of this replica.
func (r Records) Compare(recorded, settings map[string]string) error {
	var differ []string
	for _, a := range []string{SlotsAnnotation, HashAnnotation, ByAnnotation} {
		if recordedValue, ownValue := recorded[a], settings[a]; recordedValue != ownValue {
			differ = append(differ, fmt.Sprintf("%s is recorded as %q, but is %q in this replica", a, recordedValue, ownValue))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: stop all replicas and delete lease %q before changing the configuration",
		ErrConfig, strings.Join(differ, ", "), r.Name)
}
