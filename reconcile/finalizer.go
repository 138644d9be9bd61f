package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// A Finalizer keeps objects from vanishing before Clean has undone what a
// reconciler did for them outside the cluster.
//
//	live, object, err := finalizer.Guard(ctx, object)
//	if err != nil || !live {
//		return reconcile.Result{}, err
//	}
//
// What lives in the cluster needs none: owner references do that. It is safe
// for concurrent use.
type Finalizer[T informer.Object, C FinalizerClient[T]] struct {
	// Name with a domain, such as "example.com/volumes".
	Name string
	// Client returns the client of a namespace, as clientset.CoreV1().Pods and
	// patch.Cluster(clientset.CoreV1().Nodes()) do. It is called with the namespace
	// of the object.
	Client func(namespace string) C
	// Clean is called in each turn until it returns nil. It must be idempotent,
	// and is called again if the process dies before its success is recorded.
	Clean func(ctx context.Context, object T) error
}

// A FinalizerClient patches objects. Generated, dynamic and fake clients do.
type FinalizerClient[T informer.Object] interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte,
		opts metav1.PatchOptions, subresources ...string,
	) (T, error)
}

// Guard returns true, and the object as the server has it, once the object has
// the finalizer: what it guards may be done now. It returns false if the object
// is being deleted; then Clean has been called, and the finalizer is removed if it
// succeeded.
//
// Shape: at most one request, and none if the finalizer is as it should be; the
// cached object is not written to. The patch is locked by resourceVersion and
// UID, so that no finalizer of another client is lost.
//
// Errors: that of Clean; a conflict if the object has changed, which a
// controller repeats by itself; a terminal error, before Clean is called, if the
// client is of another namespace.
func (f Finalizer[T, C]) Guard(ctx context.Context, cached T) (live bool, newest T, err error) {
	if err := f.validate(); err != nil {
		return false, cached, Terminal(err)
	}
	client, err := bound.ClientFor(f.Client, cached)
	if err != nil {
		return false, cached, Terminal(fmt.Errorf("guarding %s by finalizer %q: %w",
			types.NamespacedName{Namespace: cached.GetNamespace(), Name: cached.GetName()}, f.Name, err))
	}
	has := slices.Contains(cached.GetFinalizers(), f.Name)
	switch deleting := cached.GetDeletionTimestamp() != nil; {
	case deleting && !has, !deleting && has:
		return !deleting, cached, nil
	case !deleting:
		newest, err = f.patch(ctx, client, cached, append(slices.Clone(cached.GetFinalizers()), f.Name))
		if err != nil {
			return false, cached, fmt.Errorf("adding finalizer %q: %w", f.Name, err)
		}
		return true, newest, nil
	}
	if err := f.Clean(ctx, cached); err != nil {
		return false, cached, fmt.Errorf("cleaning up for finalizer %q: %w", f.Name, err)
	}
	without := slices.DeleteFunc(slices.Clone(cached.GetFinalizers()), func(name string) bool { return name == f.Name })
	newest, err = f.patch(ctx, client, cached, without)
	switch {
	case apierrors.IsNotFound(err):
		return false, cached, nil
	case err != nil:
		return false, cached, fmt.Errorf("removing finalizer %q: %w", f.Name, err)
	}
	return false, newest, nil
}

func (f Finalizer[T, C]) validate() error {
	var faults []error
	for _, why := range validation.IsQualifiedName(f.Name) {
		faults = append(faults, fmt.Errorf("Finalizer.Name is %q: %s", f.Name, why))
	}
	if f.Client == nil {
		faults = append(faults, errors.New("Finalizer.Client is nil"))
	}
	if f.Clean == nil {
		faults = append(faults, errors.New("Finalizer.Clean is nil"))
	}
	return errors.Join(faults...)
}

// patch sets the whole list: a JSON merge patch can do no less, hence the lock.
func (f Finalizer[T, C]) patch(ctx context.Context, client C, cached T, finalizers []string) (T, error) {
	metadata := map[string]any{"finalizers": finalizers}
	if version := cached.GetResourceVersion(); version != "" {
		metadata["resourceVersion"] = version
	}
	if uid := cached.GetUID(); uid != "" {
		metadata["uid"] = uid
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return cached, err
	}
	newest, err := client.Patch(ctx, cached.GetName(), types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: ownwrites.FieldManager(ctx)})
	if err != nil {
		return cached, err
	}
	ownwrites.Wrote(ctx, newest)
	return newest, nil
}
