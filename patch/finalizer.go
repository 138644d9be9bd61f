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

// A Finalizer prevents that the server removes an object before Clean has
// undone what a reconciler did for it outside the cluster:
//
//	live, object, err := finalizer.Guard(ctx, object)
//	if err != nil || !live {
//		return reconcile.Result{}, err
//	}
//
// Objects inside the cluster need no Finalizer: owner references do that. Since
// a cache may be late, it may contain an object that the server no longer has.
// A reconciler that is about to create something outside the cluster should ask
// the server first (names.Live). A Finalizer is safe for concurrent use.
type Finalizer[T informer.Object, C Client[T]] struct {
	// Name has a domain. For example, "example.com/volumes".
	Name string
	// Client returns the client of a namespace, as clientset.CoreV1().Pods and
	// [ClusterScoped] do. It is called with the namespace of the object.
	Client func(namespace string) C
	// Clean is called in each reconcile of an object that is being deleted,
	// until it returns nil. It must be idempotent, because it is called again
	// if the process ends before its success is recorded.
	Clean func(ctx context.Context, object T) error
}

// Guard adds the finalizer to an object. It returns true, and the object as the
// server then has it, once the object has the finalizer: work outside the
// cluster is safe now. For an object that is being deleted, it calls Clean,
// removes the finalizer if Clean succeeded, and returns false.
//
// Guard sends at most one request, and none if there is no finalizer to add or
// to remove. It does not write to cached. The patch is locked by
// resourceVersion and UID, so that no finalizer of another client is lost.
//
// Errors: the error of Clean; a conflict ([IsStale]) if the object has changed,
// which a controller retries on its own; a terminal error, before Clean is
// called, if a field is wrong or the client is for another namespace.
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
	if !strings.Contains(f.Name, "/") { // finalizers without a domain belong to the server, such as orphan
		check.Wrong("Name", f.Name, "must have a domain, such as example.com/volumes")
	}
	check.That(f.Client != nil, "Client", nil, "use clientset.CoreV1().Pods, for example")
	check.That(f.Clean != nil, "Clean", nil, "must clean up before the object is deleted")
	return check.Err()
}
