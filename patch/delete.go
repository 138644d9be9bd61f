package patch

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// Delete deletes the object of which cached is the cached state, and never a
// recreated one: the UID is a precondition, and with [Options].Lock the
// resourceVersion too. It returns nil if the object is already deleted or being
// deleted. Only the API server's own answer about this object counts as proof
// that it is deleted. For example, a proxy's page with status 404 is an error.
// clients returns the client of a namespace; see [Client].
//
// Delete sends at most one deletion, and no deletion if cached is being
// deleted. It returns when the server has accepted the deletion; finalizers may
// delay it. A client may report success although the server has not answered.
// For example, clients that are not of package cluster follow a redirect to a
// page, and report success. If Delete cannot see the server's answer, or if the
// answer shows that nothing has changed, it also reads the object. If the
// client has no method Get or no permission to read, Delete assumes that the
// deletion has succeeded.
//
// The objects that the deleted one owns are deleted afterwards, as with kubectl
// delete, unless [Options].Propagation or a finalizer of the object says
// otherwise.
//
// A gateway that makes a deletion a dry run, by changing its body, is noticed
// with a client that is not of package cluster. With a client of package
// cluster, it is noticed only if the answer contains the object. Most objects
// without finalizers are answered with a Status. It is the same for a dry run
// and for a deletion. Delete then returns nil, and only the cache, which never
// shows the deletion, tells the difference.
//
// The error satisfies [IsStale] if the object was recreated or, with a lock,
// has changed. Delete also returns an error for an invalid option, such as a
// Subresource, and for an object that still exists after the server has
// reported success.
func Delete[C interface {
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}, T informer.Object](
	ctx context.Context, clients func(namespace string) C, cached T, o *Options,
) error {
	if clients == nil || bound.IsNil(cached) {
		return errNilArgument
	}
	opts := o.withDefaults(ctx)
	if err := opts.validateDelete(); err != nil {
		return describe("deleting", cached, err)
	}
	if cached.GetDeletionTimestamp() != nil {
		return nil
	}
	preconditions, err := deletePreconditions(cached, opts.Lock)
	if err != nil {
		return describe("deleting", cached, err)
	}
	c, err := bound.ClientFor(clients, cached)
	if err != nil {
		return describe("deleting", cached, err)
	}
	deleteOptions := metav1.DeleteOptions{
		Preconditions: preconditions, DryRun: opts.dryRun(), PropagationPolicy: propagation(cached, opts.Propagation),
	}
	watched, witness := witnessOf(ctx, c)
	switch err := c.Delete(watched, cached.GetName(), deleteOptions); {
	case absent.From(c, err, cached):
		return nil
	case err != nil:
		return describe("deleting", cached, err)
	}
	if opts.DryRun {
		return nil
	}
	if err := confirmDeleted(ctx, c, cached, witness); err != nil {
		return describe("deleting", cached, err)
	}
	ownwrites.Deleted(ctx, cached)
	return nil
}

// propagation returns the policy that a deletion sends, or nil if a finalizer of
// the object has chosen one already. Without a policy the server would delete a
// Job and let its Pods run.
func propagation(cached metav1.Object, chosen metav1.DeletionPropagation) *metav1.DeletionPropagation {
	if chosen != "" {
		return &chosen
	}
	for _, f := range cached.GetFinalizers() {
		if f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents {
			return nil
		}
	}
	return new(metav1.DeletePropagationBackground)
}

// confirmDeleted returns an error if the object still exists and is not being
// deleted, although its deletion has returned no error. It reads the object
// unless the answer to the deletion proves that it is deleted. If the client
// cannot or must not read, or if no witness has seen the answer, confirmDeleted
// assumes that the deletion has succeeded.
func confirmDeleted[T informer.Object](ctx context.Context, c any, cached T, deletion *answer.Witness) error {
	if deletion == nil || deletion.IsDeleted(cached.GetResourceVersion()) {
		return nil
	}
	live, err := get(ctx, c, cached)
	switch {
	case errors.Is(err, errCannotRead), apierrors.IsForbidden(err), absent.From(c, err, cached):
		return nil
	case err != nil:
		return fmt.Errorf("checking whether the object was deleted: %w", err)
	case live.GetUID() != cached.GetUID(), live.GetDeletionTimestamp() != nil:
		return nil
	}
	return errors.New("the object still exists, although the client has reported success: " +
		"perhaps the request was redirected, or a proxy or gateway has answered")
}

// deletePreconditions returns the preconditions for deleting the cached object.
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
