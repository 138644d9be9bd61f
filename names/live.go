package names

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Live returns the object from the server, not from a cache, and false if it is
// deleted. A reconciler calls it before it deletes anything that cannot be
// restored, because a cache may be behind. c is the client of the object's
// namespace, such as clientset.CoreV1().Services(namespace).
//
// Sends one GET, which is answered from the latest committed state. The object is
// not shared: the caller may modify it.
//
// Errors: any answer other than the object or "not found"; only the latter proves
// the deletion.
func Live[T metav1.Object](ctx context.Context, c interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}, name string,
) (object T, ok bool, err error) {
	object, err = c.Get(ctx, name, metav1.GetOptions{})
	var none T
	switch {
	case apierrors.IsNotFound(err):
		return none, false, nil
	case err != nil:
		return none, false, fmt.Errorf("confirming that %q is deleted: %w", name, err)
	default:
		return object, true, nil
	}
}
