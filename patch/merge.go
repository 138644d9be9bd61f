package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/diff"
)

// Merge applies edit to a copy of cached, sends what the edit changed, and
// returns the object as the server then has it. If the edit changed nothing, it
// sends no request and returns cached itself; do not modify it.
//
// clients returns the client of a namespace; see [Client]. The UID of cached is
// a precondition of the write, so that an object of another namespace or a
// recreated object is never written to. cached is shared, and Merge does not
// write to it.
//
// Go types of k8s.io/api are patched by strategic merge. All others, including
// unstructured objects of the same kinds, are patched by JSON merge. Merge
// usually sends one request. It may send more if the Go type does not show
// whether the server's object has a member. It then tries the most likely form
// of the patch first. The logger of ctx gets a [Diff] at V(4).
//
// An edit that sets a field with omitempty to its zero value removes the field,
// because the Go type does not write it. The server then fills in the default
// of the kind, if it has one. For example, replicas: 0 becomes 1 where the
// CustomResourceDefinition says so. To store a zero, make the field a pointer
// or leave out omitempty.
//
// The server has the account of a built-in Pod template in two fields,
// serviceAccountName and the deprecated serviceAccount, and takes one where the
// other is missing. An edit of one of them is sent for both.
//
// A list that has no merge key is patched element by element, by index, and
// such a patch is always locked by the resourceVersion. Fields that the Go type
// or a Transform hides are kept in the elements. For example, an edit that sets
// rules[0].port keeps the other fields of that rule, including fields that the
// program's type does not have. An element is recognised by its name, type, key
// or id, and otherwise by its position and by the values that it has in common
// with an old element.
//
// Two kinds of edits of a map are also sent as single operations, locked by the
// resourceVersion. The first is an edit that empties a map of a custom kind: its
// entries are removed one by one, and the edit is refused if a Transform hides
// further entries. The second is an edit of an entry whose key the Go type may
// write in a different form than the server, as netip.Prefix does. Moving an
// entry to another key makes a new entry: fields of the old entry that the Go
// type hides are removed with the old key.
//
// The UnmarshalJSON of a type may accept a second form of a value, for example a
// string in place of a struct. An edit inside such a value is also sent as
// single operations, and is refused if the server's value has the second form.
//
// The copy belongs to edit. edit may retain it or parts of it, but changes made
// after edit has returned are not sent. The copy of a Go struct has no managed
// fields, because they belong to the server.
//
// The error of a write that was refused because of the UID or the lock
// satisfies [IsStale]. An edit that could lose fields which the program does
// not see is refused, and the error names the field. For example, an edit is
// refused if it removes one of two elements that look the same to the program,
// or if it renames an element with a value that the Go type writes differently
// from the server. For example, a metav1.Duration writes 60s as 1m0s.
// These mistakes are found before any request:
//
//   - a nil argument, an invalid option, a client of another namespace,
//   - an edit that changes name, namespace, UID, resourceVersion or kind,
//   - an edit of generation, creationTimestamp or deletionTimestamp,
//   - an edit that the endpoint would silently drop. The status subresource
//     drops all fields except the status, and the object itself drops the
//     status of a Go type of k8s.io/api. For other types it is not known
//     whether they have the subresource,
//   - a Go type whose DeepCopyObject forgets a field, or shares it with cached,
//   - a lock on an object without a resourceVersion,
//   - a patch of more than 3 MiB.
//
// A write to a subresource that the kind does not have gets an error of its
// own. Merge reads the object once to distinguish this case from a deleted
// object. If the server's answer is about another object, the error names both
// objects. This can happen with clients whose namespace cannot be checked.
func Merge[C Client[T], T informer.Object](
	ctx context.Context, clients func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	return merge(ctx, clients, cached, o, edit, func(_, _ informer.Object) error { return nil })
}

// Status is [Merge] on the status subresource. On custom kinds with a Go type,
// whose status belongs to their controller, it also sets
// status.observedGeneration, if the Go type has it, to the generation of
// cached, so the edit need not do that. It does the same for those conditions
// in status.conditions, a []metav1.Condition, that the edit sets without an
// ObservedGeneration:
//
//	patch.Status(ctx, websites.In, site, nil, func(edit *v1.Website) {
//		meta.SetStatusCondition(&edit.Status.Conditions, metav1.Condition{Type: "Ready", …})
//	})
//
// A condition that is set to its old value is not changed, not even its times.
//
// Conditions elsewhere in the status are sent as the edit sets them, because
// they may be about the generation of a different object. For example, an edit
// of the conditions in status.parents of an HTTPRoute sets their
// ObservedGeneration itself.
//
// A CustomResourceDefinition that is older than the Go type may lack a field of
// the status. The server drops such a field without an error, so each call
// sends it again. Upgrade the definition before the program.
//
// The status of custom kinds is always locked by resourceVersion: servers
// ignore the UID there, and could write to a recreated object.
func Status[C Client[T], T informer.Object](
	ctx context.Context, clients func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	var zero T
	if edit == nil {
		return zero, errNilArgument
	}
	opts := ptr.Deref(o, Options{})
	opts.Subresource = status
	return Merge(ctx, clients, cached, &opts, func(obj T) {
		edit(obj)
		if diff.StyleOf(obj) == diff.JSON {
			observeGeneration(cached, obj)
		}
	})
}

// merge does what Merge does. In addition, if the edit changes the object, it
// calls check with the cached and the edited object, and returns the error of
// check instead of sending the patch.
func merge[C Client[T], T informer.Object](
	ctx context.Context, clientOf func(namespace string) C, cached T, o *Options,
	edit func(T), check func(cached, edited informer.Object) error,
) (T, error) {
	var zero T
	if clientOf == nil || bound.IsNil(cached) || edit == nil {
		return zero, errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return zero, describe("patching", cached, err)
	}
	original := withoutManagedFields(cached)
	edited, err := copyOf(original)
	if err != nil {
		return zero, describe("patching", cached, err)
	}
	edit(edited)
	moveStringData(edited)
	editAccounts(original, edited)
	if len(edited.GetManagedFields()) > 0 { // the edit has replaced its copy, for example with another copy of cached
		original = cached
	}
	if err := checkIdentity(cached, edited, cached.GetResourceVersion()); err != nil {
		return zero, describe("patching", cached, err)
	}
	style := diff.StyleOf(cached)
	p, err := diff.Make(original, edited, style)
	if err != nil {
		return zero, describe("comparing", cached, err)
	}
	if p.Data == nil {
		return cached, nil
	}
	if err := cmp.Or(checkEndpoint(p, style, opts.Subresource), check(cached, edited)); err != nil {
		return zero, describe("patching", cached, err)
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("patching", "kind", kindOf(cached), "object", cached.GetName(), "diff", Diff(original, edited))
	}
	// A patch by index is right only for the object that was read, so it is
	// locked. The same is true for a list that a strategic patch cannot merge.
	locked := lockIf(opts, cached, p.Style != style || ignoresUID(cached, opts.Subresource))
	c, err := bound.ClientFor(clientOf, cached)
	if err != nil {
		return zero, describe("patching", cached, err)
	}
	watched, witness := witnessOf(ctx, c)
	got, err := send(watched, c, cached, p, locked)
	if err == nil {
		err = witness.Redirect()
	}
	if err != nil {
		return zero, describe("patching", cached, err)
	}
	return got, nil
}

// witnessOf returns a context for requests, and the witness that sees their
// answers. The witness is nil for a client that is not known to send requests,
// such as a fake.
func witnessOf(ctx context.Context, client any) (context.Context, *answer.Witness) {
	if clients.SenderOf(client).REST == nil {
		return ctx, nil
	}
	return answer.WithWitness(ctx)
}

// copyOf returns a deep copy of obj for an edit. It refuses a copy that is not
// deep, because an edit of it would remove fields, or change the cache.
func copyOf[T informer.Object](obj T) (T, error) {
	copied, ok := obj.DeepCopyObject().(T)
	if !ok {
		return copied, errOtherCopy
	}
	return copied, diff.CheckCopy(obj, copied)
}

// checkEndpoint refuses an edit of fields that the endpoint would silently
// drop. It cannot check whether a custom kind has a status subresource.
func checkEndpoint(p diff.Patch, s diff.Style, subresource string) error {
	switch {
	case subresource == status && p.Member != "":
		return fmt.Errorf("the edit changes %s, but the status subresource ignores it: use Merge without Subresource",
			p.Member)
	case subresource == "" && p.Status && s == diff.Strategic:
		return errors.New("the edit changes status, which only the status subresource writes: use Status")
	default:
		return nil
	}
}

// checkIdentity returns an error if an edit turns the cached object into
// another object, gives it a resourceVersion other than rv, or changes a field
// that only the server sets.
func checkIdentity(cached, edited informer.Object, rv string) error {
	var errs []error
	changed := func(field, oldValue, newValue string) {
		if oldValue != newValue {
			errs = append(errs, fmt.Errorf("the edit must not change %s from %q to %q", field, oldValue, newValue))
		}
	}
	oldKind, newKind := cached.GetObjectKind().GroupVersionKind(), edited.GetObjectKind().GroupVersionKind()
	changed("apiVersion", oldKind.GroupVersion().String(), newKind.GroupVersion().String())
	changed("kind", oldKind.Kind, newKind.Kind)
	changed("metadata.name", cached.GetName(), edited.GetName())
	changed("metadata.namespace", cached.GetNamespace(), edited.GetNamespace())
	changed("metadata.uid", string(cached.GetUID()), string(edited.GetUID()))
	changed("metadata.resourceVersion", rv, edited.GetResourceVersion())
	return errors.Join(append(errs, checkServerFields(cached, edited))...)
}

// checkServerFields refuses an edit of fields that only the server sets. The
// server would silently drop the edit, and each reconcile would send it again.
// Times are compared in seconds, as the server stores them.
func checkServerFields(cached, edited informer.Object) error {
	var errs []error
	check := func(field string, unchanged bool) {
		if !unchanged {
			errs = append(errs, fmt.Errorf("the edit changes %s, which only the server sets", field))
		}
	}
	created, now := cached.GetCreationTimestamp(), edited.GetCreationTimestamp()
	check("metadata.creationTimestamp", created.Unix() == now.Unix())
	deleted := ptr.Deref(cached.GetDeletionTimestamp(), metav1.Time{})
	now = ptr.Deref(edited.GetDeletionTimestamp(), metav1.Time{})
	check("metadata.deletionTimestamp", deleted.Unix() == now.Unix())
	check("metadata.generation", cached.GetGeneration() == edited.GetGeneration())
	return errors.Join(errs...)
}

// withoutManagedFields returns a shallow copy of the cached object without
// managed fields. Only the server writes them, and they are often the larger
// half of the metadata. It returns the cached object itself if the object has
// no managed fields, or if its metadata is not a Go struct.
func withoutManagedFields[T informer.Object](cached T) T {
	shared := metadataOf(cached)
	if shared == nil || len(shared.ManagedFields) == 0 {
		return cached
	}
	v := reflect.ValueOf(cached).Elem()
	shallow := reflect.New(v.Type())
	shallow.Elem().Set(v)
	copied := shallow.Interface().(T)
	metadata := metadataOf(copied)
	if metadata == shared { // the metadata is behind a pointer, which the copy shares
		return cached
	}
	metadata.ManagedFields = nil
	return copied
}

// metadataOf returns the metadata of an object that is a pointer to a struct,
// or nil.
func metadataOf(obj informer.Object) *metav1.ObjectMeta {
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok || reflect.TypeOf(obj).Kind() != reflect.Pointer {
		return nil
	}
	m, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	return m
}
