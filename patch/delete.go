package patch

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/turn"
)

// A DeleteClient deletes objects of one kind. Generated, gentype and fake clients
// are one; [Dynamic] and [Metadata] make one of those clients.
type DeleteClient interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// Delete deletes the object that was read, and never another one of its name: the
// UID is always a precondition, the resourceVersion is one under
// [Lock].ResourceVersion. An object that is gone, or on its way, is no error and,
// if the cache knows, no request.
//
// Errors: [IsStale] if it is another object by now, or a changed one under a lock.
func Delete[T Object](ctx context.Context, c DeleteClient, cached T, o *Options) error {
	if isNil(c) || isNil(cached) {
		return errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validate(); err != nil {
		return describe("deleting", cached, err)
	}
	if cached.GetDeletionTimestamp() != nil {
		return nil
	}
	preconditions, err := preconditions(cached, opts.Lock)
	if err != nil {
		return describe("deleting", cached, err)
	}
	do := metav1.DeleteOptions{Preconditions: preconditions, DryRun: opts.dryRun()}
	if opts.Propagation != "" {
		do.PropagationPolicy = &opts.Propagation
	}
	switch err := c.Delete(ctx, cached.GetName(), do); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return describe("deleting", cached, err)
	}
	if !opts.DryRun {
		turn.Deleted(ctx, cached)
	}
	return nil
}

func preconditions(cached Object, l Lock) (*metav1.Preconditions, error) {
	var p metav1.Preconditions
	if uid := cached.GetUID(); uid != "" {
		p.UID = &uid
	} else if l.UID {
		return nil, errors.New("the object has no metadata.uid to lock on: read it from the server first")
	}
	if l.ResourceVersion {
		version := cached.GetResourceVersion()
		if version == "" {
			return nil, errors.New("the object has no metadata.resourceVersion to lock on: read it from the server first")
		}
		p.ResourceVersion = &version
	}
	return &p, nil
}
