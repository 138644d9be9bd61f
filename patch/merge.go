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

// Merge returns the object as the server has it after edit was applied to a copy
// of cached. It sends only what edit changed, and nothing if it changed nothing.
//
// of returns the client of a namespace, see [Client]. The UID of cached is a
// precondition of the write: neither an object in another namespace nor a recreated
// one is ever written to.
//
// cached is shared and not written to. Sends one request as a rule; if it sends none,
// it returns cached itself: do not modify it. Go types of k8s.io/api are patched by
// strategic merge. All others, including unstructured objects of the same kinds,
// are patched by JSON merge. The logger of ctx gets a [Diff] at V(4).
//
// A list that has no merge key is patched element by element, by index, and such an
// edit is always locked. What the Go type or a Transform hides of the elements stays.
// An element is recognised by its name, type, key or id, or else by its place and by
// what it has in common with the old one. For example, a new port in rules[0] keeps a
// field of that rule that the program's type does not have. Where the Go type cannot
// tell whether an object or a list exists, Merge tries what is likely first, so that it
// may send more than one request.
//
// The copy belongs to edit, which may retain it or parts of it; changes made after
// edit has returned are not sent. The copy of a Go struct has no managed fields,
// which belong to the server.
//
// Errors: a refusal because of the UID or the lock satisfies [IsStale]. An edit that
// could lose something that the server has and the program does not see is refused, and
// the error names the field: for example, two elements that look the same to the
// program, of which one was removed. These are
// found before any request, and named:
//
//   - a nil argument, a wrong option, a client of another namespace,
//   - an edit that changes name, namespace, UID, resourceVersion or kind,
//   - an edit that the endpoint would silently drop: anything but the status in the
//     status subresource, and, without it, the status of a Go type of k8s.io/api
//     (for other types it is not known whether they have the subresource),
//   - a lock on an object without a resourceVersion,
//   - a patch of more than 3 MiB.
//
// A kind without the subresource gets an error of its own, after one read that
// distinguishes it from a deleted object. If the answer is about another object,
// possible with clients whose namespace cannot be checked, the error names both.
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
// A condition that is set to its old value changes nothing, not even its times.
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

// observeGeneration notes the generation that the status of obj is about.
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

// statusOf returns the field Status of an object that is a pointer to a struct, if
// it is a struct.
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

// conditionsOf returns the conditions in a status, without a copy.
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

// merge is Merge of an edit that has to pass another check, too.
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
	if len(edited.GetManagedFields()) > 0 { // the edit has replaced the copy, by one of its own for example
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
	// Indexes are those of the object that was read, and so is what a strategic patch could not merge.
	locked := lockIf(opts, cached, p.Style != style || ignoresUID(cached, opts.Subresource))
	got, err := send(ctx, of, cached, p, locked)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	return got, nil
}

// checkEndpoint refuses what the endpoint would silently drop. Whether a custom
// kind has a status subresource is not known here.
func checkEndpoint(p diff.Patch, s diff.Style, subresource string) error {
	switch {
	case subresource == status && p.Other != "":
		return fmt.Errorf("the edit changes %s, which the status subresource ignores: use Merge without Subresource", p.Other)
	case subresource == "" && p.Status && s == diff.Strategic:
		return errors.New("the edit changes status, which only the status subresource writes: use Status")
	default:
		return nil
	}
}

// checkIdentity refuses an edit that makes another object of cached, or gives it
// another resourceVersion than rv.
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

// withoutManagedFields returns cached itself if it has no managed fields or its
// metadata is not a Go struct, and otherwise a shallow copy without them: only the
// server writes them, and they are often the larger half of the metadata.
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

// metadataOf returns the metadata of an object that is a pointer to a struct, or nil.
func metadataOf(obj informer.Object) *metav1.ObjectMeta {
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok || reflect.TypeOf(obj).Kind() != reflect.Pointer {
		return nil
	}
	m, _ := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	return m
}
