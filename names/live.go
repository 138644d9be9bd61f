package names

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Getter reads one object of one kind: clientset.CoreV1().Services(namespace).
type Getter[T metav1.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Live returns the object as the server, not a cache, has it: false means that
// it is gone. A reconciler asks before it deletes what cannot be had back,
// because a cache may be late.
//
// Shape: one GET, answered from the latest committed state; the object is the
// caller's own.
func Live[T metav1.Object](ctx context.Context, c Getter[T], name string) (object T, ok bool, err error) {
	object, err = c.Get(ctx, name, metav1.GetOptions{})
	var none T
	switch {
	case apierrors.IsNotFound(err):
		return none, false, nil
	case err != nil:
		return none, false, fmt.Errorf("confirming that %q is gone: %w", name, err)
	default:
		return object, true, nil
	}
}
