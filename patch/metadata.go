package patch

import (
	"context"
	"errors"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/diff"
)

// Labels is [Merge] for an edit of the labels alone: only they are copied. The
// edit gets a map that is never nil, and may leave it empty.
func Labels[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func(map[string]string),
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	before := cached.GetLabels()
	after := copyMap(before)
	edit(after)
	return sendMap(ctx, of, cached, o, "labels", before, after)
}

// Annotations is [Merge] for an edit of the annotations alone: only they are
// copied. The edit gets a map that is never nil, and may leave it empty.
func Annotations[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func(map[string]string),
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	before := cached.GetAnnotations()
	after := copyMap(before)
	edit(after)
	return sendMap(ctx, of, cached, o, "annotations", before, after)
}

// Finalizers is [Merge] for an edit of the finalizers alone. The edit gets a copy
// and returns what they are to be.
//
// Where a JSON merge patch replaces the whole list, i.e. on all but Go
// types of k8s.io/api, the resourceVersion is always locked, so that a finalizer
// that another client has just added is not lost.
func Finalizers[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func([]string) []string,
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	before := cached.GetFinalizers()
	after := edit(slices.Clone(before))
	if slices.Equal(before, after) {
		return cached, nil
	}
	return sendList(ctx, of, cached, o, metav1.ObjectMeta{Finalizers: before}, metav1.ObjectMeta{Finalizers: after})
}

// OwnerReferences is [Merge] for an edit of the owner references alone. The edit
// gets a deep copy and returns what they are to be. It locks as [Finalizers] does.
func OwnerReferences[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
	edit func([]metav1.OwnerReference) []metav1.OwnerReference,
) (T, error) {
	var none T
	if of == nil || isNil(cached) || edit == nil {
		return none, errNilArgument
	}
	before := cached.GetOwnerReferences()
	copied := metav1.ObjectMeta{OwnerReferences: before}
	after := edit(copied.DeepCopy().OwnerReferences)
	return sendList(ctx, of, cached, o, metav1.ObjectMeta{OwnerReferences: before},
		metav1.ObjectMeta{OwnerReferences: after})
}

func copyMap(m map[string]string) map[string]string {
	if m == nil {
		return make(map[string]string, 1)
	}
	return maps.Clone(m)
}

func sendMap[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, member string, before, after map[string]string,
) (T, error) {
	var none T
	if maps.Equal(before, after) {
		return cached, nil
	}
	opts, err := o.forMetadata(ctx)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	p := diff.Strings(member, before, after, diff.StyleOf(cached))
	return post(ctx, of, cached, p, opts)
}

// listEdit is the part of an object that an edit of a metadata list concerns.
type listEdit struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

func sendList[C Client[T], T Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options, before, after metav1.ObjectMeta,
) (T, error) {
	var none T
	opts, err := o.forMetadata(ctx)
	if err != nil {
		return none, describe("patching", cached, err)
	}
	p, err := diff.Make(&listEdit{before}, &listEdit{after}, diff.StyleOf(cached))
	if err != nil {
		return none, describe("comparing", cached, err)
	}
	if p.Data == nil {
		return cached, nil
	}
	return post(ctx, of, cached, p, opts.lockIf(cached, p.Style == diff.JSON))
}

// forMetadata is the options of an edit that only the main endpoint takes.
func (o *Options) forMetadata(ctx context.Context) (Options, error) {
	opts := o.withDefaults(ctx)
	err := opts.validate()
	if opts.Subresource == status {
		err = errors.Join(err, errors.New("field Subresource: the status subresource ignores metadata: leave it empty"))
	}
	return opts, err
}
