package patch

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/turn"
)

// Merge returns the object as the server has it after edit was applied to a copy
// of cached. It sends only what edit changed, and nothing if it changed nothing.
//
// Shape: cached may be shared, it is not written to. One request, or none: then
// the answer is cached itself and may not be written to either. Kinds of
// Kubernetes itself are patched by strategic merge, all others by JSON merge,
// which replaces a changed list as a whole: lock such an edit. At V(4) the logger
// of ctx gets a [Diff].
//
// The copy belongs to the edit, which may retain it or parts of it; changes that
// it makes after it has returned are not sent. The copy of a Go struct has no
// managed fields: they are the server's.
//
// Errors: a refusal by the lock satisfies [IsStale]. What is wrong before any
// request says so: a nil argument, an edit that changes name, namespace, UID or
// kind, an edit that the endpoint would silently drop (status without the status
// subresource and the other way round), a lock on an object that has no
// resourceVersion or UID, a patch of more than [MaxBytes].
func Merge[T Object](ctx context.Context, c Client[T], cached T, o *Options, edit func(T)) (T, error) {
	var none T
	if isNil(c) || isNil(cached) || edit == nil {
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
	if err := checkIdentity(cached, edited); err != nil {
		return none, describe("patching", cached, err)
	}
	return send(ctx, c, cached, before, edited, &opts)
}

// send writes the difference between before, which is cached without its managed fields, and edited.
func send[T Object](ctx context.Context, c Client[T], cached, before, edited T, o *Options) (T, error) {
	var none T
	style := diff.StyleOf(cached)
	p, err := diff.Make(before, edited, style)
	if err != nil {
		return none, describe("comparing", cached, err)
	}
	if p.Data == nil {
		return cached, nil
	}
	if err := checkEndpoint(p, style, o.Subresource); err != nil {
		return none, describe("patching", cached, err)
	}
	if log := logr.FromContextOrDiscard(ctx).V(4); log.Enabled() {
		log.Info("patching", "kind", kindOf(cached), "object", cached.GetName(), "diff", Diff(before, edited))
	}
	l := o.Lock
	if p.Style != style && cached.GetResourceVersion() != "" {
		l.ResourceVersion = true // the patch replaces whole lists that could not be merged by key
	}
	return post(ctx, c, cached, p, l, o)
}

// post locks the patch and sends it.
func post[T Object](ctx context.Context, c Client[T], cached T, p diff.Patch, l Lock, o *Options) (T, error) {
	var none T
	data, err := lock(p.Data, cached, l)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	if len(data) > MaxBytes {
		err := fmt.Errorf("the patch has %d bytes, a server reads at most %d: make the object smaller", len(data), MaxBytes)
		return none, describe("patching", cached, err)
	}
	pt := types.MergePatchType
	if p.Style == diff.Strategic {
		pt = types.StrategicMergePatchType
	}
	opts := metav1.PatchOptions{FieldManager: o.FieldManager, DryRun: o.dryRun()}
	answer, err := c.Patch(ctx, cached.GetName(), pt, data, opts, o.subresources()...)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	if !o.DryRun {
		turn.Wrote(ctx, answer)
	}
	return answer, nil
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

// checkIdentity refuses an edit that makes another object of it.
func checkIdentity(cached, edited Object) error {
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
	changed("metadata.resourceVersion", cached.GetResourceVersion(), edited.GetResourceVersion())
	return errors.Join(faults...)
}
