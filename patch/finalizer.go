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
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/terminal"
)

// A Finalizer prevents the server from removing an object before Clean has
// undone what a reconciler did for it outside the cluster:
//
//	live, object, err := finalizer.Guard(ctx, object)
//	if err != nil || !live {
//		return reconcile.Result{}, err
//	}
//
// Objects inside the cluster that have an owner reference to the object need no
// Finalizer, because the garbage collector deletes them. Since a cache may be
// late, it may contain an object that the server no longer has. A reconciler
// that is about to create something outside the cluster should ask the server
// first (names.Live). A Finalizer is safe for concurrent use.
type Finalizer[T informer.Object, C Client[T]] struct {
	// Name must contain a domain, such as "example.com/volumes".
	Name string
	// Client returns the client of a namespace, as clientset.CoreV1().Pods and
	// [ClusterScoped] do. It is called with the namespace of the object.
	Client func(namespace string) C
	// Clean is called in each reconcile of an object that is being deleted and
	// still has the finalizer. It must be idempotent: after a success it is
	// called again if the finalizer could not be removed, or if the process
	// ended before that.
	Clean func(ctx context.Context, object T) error
}

// Guard adds the finalizer to an object. Once the object has the finalizer,
// Guard returns true, and the object from the server's answer if it has just
// added the finalizer, or else cached. Work outside the cluster is safe once
// Guard returns true. For an object that is being deleted and has the finalizer,
// Guard calls Clean, removes the finalizer if Clean succeeded, and returns
// false. If the finalizer is already gone, it only returns false.
//
// Guard sends no request if there is no finalizer to add or to remove.
// Otherwise it usually sends one patch; see [Merge]. It does not write to
// cached. The patch is locked by resourceVersion and UID, so that no finalizer
// of another client is lost.
//
// Guard returns the error of Clean. If the object has changed, it returns a
// conflict ([IsStale]); a controller retries it on its own. It returns an error
// if the answer shows that the server has not stored the finalizer, for example
// because a gateway makes all writes dry runs. If a field is wrong, or the
// client is for another namespace, it returns a terminal error before it calls
// Clean.
func (f Finalizer[T, C]) Guard(ctx context.Context, cached T) (live bool, newest T, err error) {
	if err := f.validate(); err != nil {
		return false, cached, terminal.Mark(err)
	}
	if bound.IsNil(cached) {
		return false, cached, terminal.Mark(fmt.Errorf("guarding an object with finalizer %q: the object is nil", f.Name))
	}
	c, err := bound.ClientFor(f.Client, cached)
	if err != nil {
		return false, cached, terminal.Mark(fmt.Errorf("guarding %s with finalizer %q: %w", bound.KeyOf(cached), f.Name, err))
	}
	guarded := slices.Contains(cached.GetFinalizers(), f.Name)
	switch deleting := cached.GetDeletionTimestamp() != nil; {
	case deleting && !guarded, !deleting && guarded:
		return !deleting, cached, nil
	case !deleting:
		newest, err = f.set(ctx, cached, append(slices.Clone(cached.GetFinalizers()), f.Name))
		if err != nil {
			return false, cached, fmt.Errorf("adding finalizer %q: %w", f.Name, err)
		}
		if !slices.Contains(newest.GetFinalizers(), f.Name) {
			return false, cached, fmt.Errorf("adding finalizer %q: the answer does not have it: "+
				"perhaps an admission webhook has removed it, or a proxy or gateway has answered", f.Name)
		}
		if notStored(c, cached, newest) {
			return false, cached, fmt.Errorf("adding finalizer %q: the answer has the resourceVersion from before, so the "+
				"server has not stored it: perhaps a proxy or gateway has made the request a dry run", f.Name)
		}
		return true, newest, nil
	}
	if err := f.Clean(ctx, cached); err != nil {
		return false, cached, fmt.Errorf("cleaning up for finalizer %q: %w", f.Name, err)
	}
	remaining := slices.DeleteFunc(slices.Clone(cached.GetFinalizers()), func(name string) bool { return name == f.Name })
	newest, err = f.set(ctx, cached, remaining)
	switch {
	case absent.From(c, err, cached):
		return false, cached, nil
	case err != nil:
		return false, cached, fmt.Errorf("removing finalizer %q: %w", f.Name, err)
	case slices.Contains(newest.GetFinalizers(), f.Name):
		return false, cached, fmt.Errorf("removing finalizer %q: the answer still has it: "+
			"perhaps an admission webhook has put it back, or a proxy or gateway has answered", f.Name)
	}
	return false, newest, nil
}

// notStored reports whether an answer shows that the server has not stored the
// change that it contains. Each stored change gets a new resourceVersion,
// except with a fake.
func notStored(client any, cached, newest informer.Object) bool {
	version := newest.GetResourceVersion()
	return version != "" && version == cached.GetResourceVersion() && clients.SenderOf(client).REST != nil
}

func (f Finalizer[T, C]) set(ctx context.Context, cached T, finalizers []string) (T, error) {
	locked := lockIf(Options{}, cached, true)
	return Merge(ctx, f.Client, cached, &locked, func(edited T) { edited.SetFinalizers(finalizers) })
}

func (f Finalizer[T, C]) validate() error {
	check := option.Of("patch.Finalizer")
	for _, problem := range validation.IsQualifiedName(f.Name) {
		check.Wrong("Name", f.Name, "%s", problem)
	}
	if !strings.Contains(f.Name, "/") { // finalizers without a domain belong to the server, such as orphan
		check.Wrong("Name", f.Name, "must have a domain, such as example.com/volumes")
	}
	check.That(f.Client != nil, "Client", nil, "use clientset.CoreV1().Pods, for example")
	check.That(f.Clean != nil, "Clean", nil, "must clean up before the object is deleted")
	return check.Err()
}
