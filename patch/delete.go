package patch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// Delete deletes the object that was read, and never a recreated one: the UID
// is a precondition, and with [Options].Lock the resourceVersion too. It
// returns nil if the object is already deleted or being deleted. Only the
// server's own answer about this object is taken for that: for example, a page
// of a proxy with status 404 is an error. of returns the client of a namespace;
// see [Client].
//
// Delete sends at most one request, and none if cached is being deleted. It
// returns when the server has accepted the deletion; finalizers may delay it.
//
// Errors: [IsStale] if the object was recreated or, with a lock, has changed.
func Delete[C interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}, T informer.Object](
	ctx context.Context, of func(namespace string) C, cached T, o *Options,
) error {
	if of == nil || bound.IsNil(cached) {
		return errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return describe("deleting", cached, err)
	}
	if cached.GetDeletionTimestamp() != nil {
		return nil
	}
	preconditions, err := deletePreconditions(cached, opts.Lock)
	if err != nil {
		return describe("deleting", cached, err)
	}
	c, err := bound.ClientFor(of, cached)
	if err != nil {
		return describe("deleting", cached, err)
	}
	do := metav1.DeleteOptions{Preconditions: preconditions, DryRun: opts.dryRun()}
	if opts.Propagation != "" {
		do.PropagationPolicy = &opts.Propagation
	}
	switch err := c.Delete(ctx, cached.GetName(), do); {
	case absent.Object(err, cached):
		return nil
	case err != nil:
		return describe("deleting", cached, err)
	}
	if !opts.DryRun {
		ownwrites.Deleted(ctx, cached)
	}
	return nil
}

// deletePreconditions returns the preconditions for deleting cached.
func deletePreconditions(cached informer.Object, locked bool) (*metav1.Preconditions, error) {
	var p metav1.Preconditions
	if uid := cached.GetUID(); uid != "" {
		p.UID = &uid
	}
	if locked {
		rv := cached.GetResourceVersion()
		if rv == "" {
			return nil, errNoVersion
		}
		p.ResourceVersion = &rv
	}
	return &p, nil
}
