package patch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/terminal"
)

// A Finalizer keeps objects from being removed until Clean has undone what a
// reconciler did for them outside the cluster.
//
//	live, object, err := finalizer.Guard(ctx, object)
//	if err != nil || !live {
//		return reconcile.Result{}, err
//	}
//
// Objects in the cluster need none: owner references do that. A late cache may still
// have an object that the server no longer has: before a reconciler creates
// something outside, it should ask the server (names.Live). A Finalizer is safe for
// concurrent use.
type Finalizer[T informer.Object, C Client[T]] struct {
	// Name with a domain, such as "example.com/volumes".
	Name string
	// Client returns the client of a namespace, as clientset.CoreV1().Pods and
	// [ClusterScoped] do. It is called with the namespace of the object.
	Client func(namespace string) C
	// Clean is called in each reconcile of an object that is being deleted, until it
	// returns nil. It must be idempotent: it is called again if the process dies
	// before its success is recorded.
	Clean func(ctx context.Context, object T) error
}

// Guard returns true, and the object as the server has it, once the object has the
// finalizer: work outside the cluster is now safe. It returns false if the object is
// being deleted; Clean has then been called, and the finalizer removed if Clean
// succeeded.
//
// Sends at most one request, and none if the finalizer is as it should be. The
// cached object is not written to. The patch is locked by resourceVersion and
// UID, so that no finalizer of another client is lost.
//
// Errors: Clean's; a conflict ([IsStale]) if the object has changed, which a
// controller retries on its own; a terminal error, before Clean is called, if a
// field is wrong or the client is for another namespace.
func (f Finalizer[T, C]) Guard(ctx context.Context, cached T) (live bool, newest T, err error) {
	if err := f.validate(); err != nil {
		return false, cached, terminal.Mark(err)
	}
	if bound.IsNil(cached) {
		return false, cached, terminal.Mark(fmt.Errorf("guarding an object by finalizer %q: it is nil", f.Name))
	}
	if _, err := bound.ClientFor(f.Client, cached); err != nil {
		return false, cached, terminal.Mark(fmt.Errorf("guarding %s by finalizer %q: %w", bound.KeyOf(cached), f.Name, err))
	}
	has := slices.Contains(cached.GetFinalizers(), f.Name)
	switch deleting := cached.GetDeletionTimestamp() != nil; {
	case deleting && !has, !deleting && has:
		return !deleting, cached, nil
	case !deleting:
		newest, err = f.set(ctx, cached, append(slices.Clone(cached.GetFinalizers()), f.Name))
		if err != nil {
			return false, cached, fmt.Errorf("adding finalizer %q: %w", f.Name, err)
		}
		return true, newest, nil
	}
	if err := f.Clean(ctx, cached); err != nil {
		return false, cached, fmt.Errorf("cleaning up for finalizer %q: %w", f.Name, err)
	}
	without := slices.DeleteFunc(slices.Clone(cached.GetFinalizers()), func(name string) bool { return name == f.Name })
	newest, err = f.set(ctx, cached, without)
	switch {
	case absent.Object(err, cached):
		return false, cached, nil
	case err != nil:
		return false, cached, fmt.Errorf("removing finalizer %q: %w", f.Name, err)
	}
	return false, newest, nil
}

func (f Finalizer[T, C]) set(ctx context.Context, cached T, finalizers []string) (T, error) {
	locked := lockIf(Options{}, cached, true)
	return Merge(ctx, f.Client, cached, &locked, func(edited T) { edited.SetFinalizers(finalizers) })
}

func (f Finalizer[T, C]) validate() error {
	check := option.Of("patch.Finalizer")
	for _, why := range validation.IsQualifiedName(f.Name) {
		check.Wrong("Name", f.Name, "%s", why)
	}
	if !strings.Contains(f.Name, "/") { // others are the server's own, such as orphan
		check.Wrong("Name", f.Name, "must have a domain, such as example.com/volumes")
	}
	check.That(f.Client != nil, "Client", nil, "use clientset.CoreV1().Pods, for example")
	check.That(f.Clean != nil, "Clean", nil, "must clean up before the object is deleted")
	return check.Err()
}
