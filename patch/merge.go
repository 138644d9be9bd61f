package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
)

// Merge applies edit to a copy of cached, sends what the edit changed, and
// returns the object as the server then has it. If the edit changed nothing, it
// sends no request and returns cached itself, which must not be modified.
//
// of returns the client of a namespace; see [Client]. The UID of cached is a
// precondition of the write, so that an object of another namespace or a
// recreated object is never written to. cached is shared, and Merge does not
// write to it.
//
// Go types of k8s.io/api are patched by strategic merge. All others, including
// unstructured objects of the same kinds, are patched by JSON merge. Merge
// usually sends one request. It may send more where the Go type cannot tell
// whether the server's object has a member: then it tries the most likely form
// first. The logger of ctx gets a [Diff] at V(4).
//
// A list that has no merge key is patched element by element, by index, and
// such a patch is always locked by the resourceVersion. Fields of the elements
// that the Go type or a Transform hides are kept. For example, an edit that
// sets rules[0].port keeps the other fields of that rule, also fields that the
// program's type does not have. An element is recognised by its name, type, key
// or id, and otherwise by its place and by what it has in common with the old
// one. A map of a custom kind that the edit empties is patched in this way,
// too: its entries are removed one by one, and the edit is refused if a
// Transform hides others.
//
// The copy belongs to edit, which may retain it or parts of it; changes made
// after edit has returned are not sent. The copy of a Go struct has no managed
// fields, because they belong to the server.
//
// Errors: a refusal because of the UID or the lock satisfies [IsStale]. An edit
// that could lose fields which the program does not see is refused, and the
// error names the field. For example, one of two elements that look the same to
// the program is removed. These mistakes are found before any request:
//
//   - a nil argument, a wrong option, a client of another namespace,
//   - an edit that changes name, namespace, UID, resourceVersion or kind,
//   - an edit that the endpoint would silently drop: other fields than the
//     status in the status subresource and, without it, the status of a Go type
//     of k8s.io/api (for other types it is not known whether they have the
//     subresource),
//   - a lock on an object without a resourceVersion,
//   - a patch of more than 3 MiB.
//
// A write to a subresource that the kind does not have gets an error of its
// own. Merge distinguishes it from a deleted object by reading the object once.
// If the answer is about another object, which clients whose namespace cannot
// be checked make possible, the error names both.
func Merge[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	return merge(ctx, of, cached, o, edit, func(_, _ informer.Object) error { return nil })
}

// Status is [Merge] on the status subresource. On custom kinds with a Go type,
// whose status belongs to their controller, it also sets status.observedGeneration,
// if the kind has it, to the generation of cached, so that an edit need not. The
// same goes for conditions ([]metav1.Condition) that the edit sets without an
// ObservedGeneration:
//
//	patch.Status(ctx, websites.In, site, nil, func(edit *v1.Website) {
//		meta.SetStatusCondition(&edit.Status.Conditions, metav1.Condition{Type: "Ready", …})
//	})
//
// A condition that is set to its old value is not changed, not even its times.
//
// The status of custom kinds is always locked by resourceVersion: servers ignore
// the UID there, and could write to a recreated object.
func Status[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	var none T
	if edit == nil {
		return none, errNilArgument
	}
	opts := ptr.Deref(o, Options{})
	opts.Subresource = status
	return Merge(ctx, of, cached, &opts, func(obj T) {
		edit(obj)
		if diff.StyleOf(obj) == diff.JSON {
			observeGeneration(cached, obj)
		}
	})
}

// observeGeneration sets the observed generation in the status of obj and in
// the conditions that the edit has set.
func observeGeneration(cached, obj informer.Object) {
	s := statusOf(obj)
	if !s.IsValid() || obj.GetGeneration() == 0 {
		return
	}
	if f := s.FieldByName("ObservedGeneration"); f.IsValid() && f.Kind() == reflect.Int64 && f.CanSet() {
		f.SetInt(obj.GetGeneration())
	}
	before := conditionsOf(statusOf(cached))
	conditions := conditionsOf(s)
	for i := range conditions {
		is := &conditions[i]
		if is.ObservedGeneration == 0 && !sameCondition(meta.FindStatusCondition(before, is.Type), is) {
			is.ObservedGeneration = obj.GetGeneration()
		}
	}
}

// statusOf returns the field Status of an object that is a pointer to a struct.
// The result is not valid if there is no such field, or if it is not a struct.
func statusOf(obj informer.Object) reflect.Value {
	v := reflect.ValueOf(obj).Elem()
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	if s := v.FieldByName("Status"); s.IsValid() && s.Kind() == reflect.Struct {
		return s
	}
	return reflect.Value{}
}

// conditionsOf returns the conditions in a status. They are not copied.
func conditionsOf(status reflect.Value) []metav1.Condition {
	if !status.IsValid() {
		return nil
	}
	f := status.FieldByName("Conditions")
	if !f.IsValid() {
		return nil
	}
	conditions, _ := reflect.TypeAssert[[]metav1.Condition](f)
	return conditions
}

// sameCondition reports whether an edit has left a condition as it was.
func sameCondition(was, is *metav1.Condition) bool {
	if was == nil || !was.LastTransitionTime.Equal(&is.LastTransitionTime) {
		return false
	}
	same := *was
	same.LastTransitionTime = is.LastTransitionTime
	return same == *is
}

// merge is Merge with one more check of what the edit has done.
func merge[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func(T), check func(cached, edited informer.Object) error,
) (T, error) {
	var none T
	if of == nil || bound.IsNil(cached) || edit == nil {
		return none, errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return none, describe("patching", cached, err)
	}
	before := withoutManagedFields(cached)
	edited, ok := before.DeepCopyObject().(T)
	if !ok {
		return none, describe("patching", cached, errOtherCopy)
	}
	edit(edited)
	if len(edited.GetManagedFields()) > 0 { // the edit has overwritten its copy, for example by another copy of cached
		before = cached
	}
	if err := checkIdentity(cached, edited, cached.GetResourceVersion()); err != nil {
		return none, describe("patching", cached, err)
	}
	style := diff.StyleOf(cached)
	p, err := diff.Make(before, edited, style)
	if err != nil {
		return none, describe("comparing", cached, err)
	}
	if p.Data == nil {
		return cached, nil
	}
	if err := cmp.Or(checkEndpoint(p, style, opts.Subresource), check(cached, edited)); err != nil {
		return none, describe("patching", cached, err)
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("patching", "kind", kindOf(cached), "object", cached.GetName(), "diff", Diff(before, edited))
	}
	// A patch by index is right only for the object that was read, so it is
	// locked. The same goes for a list that a strategic patch cannot merge.
	locked := lockIf(opts, cached, p.Style != style || ignoresUID(cached, opts.Subresource))
	got, err := send(ctx, of, cached, p, locked)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	return got, nil
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

// checkIdentity refuses an edit that turns cached into another object, or gives
// it another resourceVersion than rv.
func checkIdentity(cached, edited informer.Object, rv string) error {
	var errs []error
	changed := func(field, was, is string) {
		if was != is {
			errs = append(errs, fmt.Errorf("the edit changes %s from %q to %q", field, was, is))
		}
	}
	was, is := cached.GetObjectKind().GroupVersionKind(), edited.GetObjectKind().GroupVersionKind()
	changed("apiVersion", was.GroupVersion().String(), is.GroupVersion().String())
	changed("kind", was.Kind, is.Kind)
	changed("metadata.name", cached.GetName(), edited.GetName())
	changed("metadata.namespace", cached.GetNamespace(), edited.GetNamespace())
	changed("metadata.uid", string(cached.GetUID()), string(edited.GetUID()))
	changed("metadata.resourceVersion", rv, edited.GetResourceVersion())
	return errors.Join(errs...)
}

// withoutManagedFields returns a shallow copy of cached without managed fields.
// Only the server writes them, and they are often the larger half of the
// metadata. It returns cached itself if it has no managed fields, or if its
// metadata is not a Go struct.
func withoutManagedFields[T informer.Object](cached T) T {
	shared := metadataOf(cached)
	if shared == nil || len(shared.ManagedFields) == 0 {
		return cached
	}
	v := reflect.ValueOf(cached).Elem()
	shallow := reflect.New(v.Type())
	shallow.Elem().Set(v)
	out := shallow.Interface().(T)
	copied := metadataOf(out)
	if copied == shared { // behind a pointer, so that both have it
		return cached
	}
	copied.ManagedFields = nil
	return out
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
