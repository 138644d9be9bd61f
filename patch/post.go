package patch

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/diff"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// post sends the patch to the object that cached is, under the conditions of o.
func post[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, p diff.Patch, o Options,
) (T, error) {
	answer, err := tryPost(ctx, of, cached, p, o)
	if err != nil {
		var none T
		return none, describe("patching", cached, err)
	}
	return answer, nil
}

func tryPost[C Client[T], T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, p diff.Patch, o Options,
) (T, error) {
	var none T
	data, err := withPreconditions(p.Data, cached, o.Lock)
	if err != nil {
		return none, err
	}
	if len(data) > maxBytes {
		return none, fmt.Errorf("the patch has %d bytes, a server reads at most %d: make the object smaller",
			len(data), maxBytes)
	}
	c, err := bound.ClientFor(of, cached)
	if err != nil {
		return none, err
	}
	pt := types.MergePatchType
	if p.Style == diff.Strategic {
		pt = types.StrategicMergePatchType
	}
	opts := metav1.PatchOptions{FieldManager: o.FieldManager, DryRun: o.dryRun()}
	answer, err := c.Patch(ctx, cached.GetName(), pt, data, opts, o.subresources()...)
	if apierrors.IsNotFound(err) && o.Subresource != "" {
		err = whatIsMissing(ctx, c, cached, o.Subresource, err)
	}
	if err != nil {
		return none, err
	}
	if err := checkAnswer(cached, answer); err != nil {
		return none, err
	}
	if !o.DryRun {
		ownwrites.Wrote(ctx, answer)
	}
	return answer, nil
}

// whatIsMissing tells a kind without the subresource from a deleted object, for
// which servers answer the same: it reads the object, if the client can.
func whatIsMissing[C Client[T], T informer.Object](
	ctx context.Context, c C, cached T, subresource string, notFound error,
) error {
	var got T
	var err error
	switch c := any(c).(type) {
	case interface {
		Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	}:
		got, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	case interface {
		Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (T, error)
	}: // dynamic and metadata clients
		got, err = c.Get(ctx, cached.GetName(), metav1.GetOptions{})
	default:
		return notFound
	}
	if err != nil || isNil(got) || got.GetUID() != cached.GetUID() {
		return notFound
	}
	return fmt.Errorf("its kind has no subresource %q: add it to the CustomResourceDefinition, or edit the object itself",
		subresource) // not wrapping notFound: the object is there
}
