package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/diff"
)

// Merge returns the object as the server has it after edit was applied to a copy
// of cached. It sends only what edit changed, and nothing if it changed nothing.
//
// of returns the client of a namespace, see [Client]. The UID of cached is a
// condition of the write: neither an object of another namespace nor a recreated
// one is ever written to.
//
// cached may be shared, it is not written to. One request, or none: then the
// answer is cached itself and may not be written to either. Go types of
// k8s.io/api are patched by strategic merge, all others, unstructured objects of
// the same kinds too, by JSON merge, which replaces a changed list as a whole: lock
// such an edit. At V(4) the logger of ctx gets a
// [Diff].
//
// The copy belongs to the edit, which may retain it or parts of it; changes that
// it makes after it has returned are not sent. The copy of a Go struct has no
// managed fields: they are the server's.
//
// Errors: a refusal because of the UID or the lock satisfies [IsStale]. What is
// wrong before any request says so: a nil argument, a client of another
// namespace, an edit that changes name, namespace, UID or kind, an edit that the
// endpoint would silently drop (all but the status in the status subresource, and
// the status of a Go type of k8s.io/api without it; of other types it is not known
// whether they have the subresource), a lock on an object that has no resourceVersion, a patch of
// more than 3 MiB. A kind without the subresource is named as that, after
// one read that tells it from a deleted object. An answer about another object,
// which a client may give whose namespace does not show, names both.
func Merge[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, edit func(T),
) (T, error) {
	return merge(ctx, of, cached, o, edit, func(_, _ informer.Object) error { return nil })
}

// merge is Merge of an edit that has to pass another check, too.
func merge[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func(T), check func(cached, edited informer.Object) error,
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return none, describe("patching", cached, err)
	}
	before, edited, ok := copyOf(cached)
	if !ok {
		return none, describe("patching", cached, errOtherCopy)
	}
	edit(edited)
	if len(edited.GetManagedFields()) > 0 { // the edit has taken them from elsewhere, a copy of its own for example
		before = cached
	}
	if err := cmp.Or(checkIdentity(cached, edited, cached.GetResourceVersion()), check(cached, edited)); err != nil {
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
	if err := checkEndpoint(p, style, opts.Subresource); err != nil {
		return none, describe("patching", cached, err)
	}
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		log.Info("patching", "kind", kindOf(cached), "object", cached.GetName(), "diff", Diff(before, edited))
	}
	// Lists that are replaced as a whole, although others may add to them.
	replaces := p.Style != style || style == diff.JSON && changesSharedLists(before, edited)
	return post(ctx, of, cached, p, opts.lockIf(cached, replaces || ignoresUID(cached, opts.Subresource)))
}

// checkEndpoint refuses what the endpoint would drop without a word. Whether a
// custom kind has a status subresource is not known here.
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

// checkIdentity refuses an edit that makes another object of cached, or gives it another resourceVersion than it had.
func checkIdentity(cached, edited informer.Object, version string) error {
	var faults []error
	changed := func(field, was, is string) {
		if was != is {
			faults = append(faults, fmt.Errorf("the edit changes %s from %q to %q", field, was, is))
		}
	}
	was, is := cached.GetObjectKind().GroupVersionKind(), edited.GetObjectKind().GroupVersionKind()
	changed("apiVersion", was.GroupVersion().String(), is.GroupVersion().String())
	changed("kind", was.Kind, is.Kind)
	changed("metadata.name", cached.GetName(), edited.GetName())
	changed("metadata.namespace", cached.GetNamespace(), edited.GetNamespace())
	changed("metadata.uid", string(cached.GetUID()), string(edited.GetUID()))
	changed("metadata.resourceVersion", version, edited.GetResourceVersion())
	return errors.Join(faults...)
}
