package names

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/absent"
)

// Live returns the object from the server, not from a cache, and false if it is
// deleted. A reconciler calls it before it deletes anything that cannot be
// restored, because a cache may be behind. c is the client of the object's
// namespace, such as clientset.CoreV1().Services(namespace).
//
// Sends one GET, which is answered from the latest committed state. The object is
// not shared: the caller may modify it.
//
// Errors: any answer other than the object or a proof that it does not exist, as
// [IsNotFound] defines it. For example, a proxy's page with status 404 is an error,
// and so is the {} of a gateway with status 200.
func Live[T metav1.Object](ctx context.Context, c interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}, name string,
) (object T, ok bool, err error) {
	object, err = c.Get(ctx, name, metav1.GetOptions{})
	var none T
	if absent.OfType[T](err, name) {
		return none, false, nil
	}
	if err == nil {
		err = absent.Answer(object, name)
	}
	if err != nil {
		return none, false, fmt.Errorf("confirming that %q is deleted: %w", name, err)
	}
	return object, true, nil
}

// IsNotFound reports whether err proves that the object of that resource and name
// does not exist. Before code deletes, forgets or skips anything, it should ask this
// instead of apierrors.IsNotFound, which is true for any answer with status 404: for
// example for the page of a proxy, or while a CustomResourceDefinition does not serve
// the version. A proof is the API server's own answer, and names this object:
//
//	err := clientset.CoreV1().Pods(namespace).Delete(ctx, name, options)
//	if names.IsNotFound(err, corev1.Resource("pods"), name) {
//		err = nil // deleted already
//	}
//
// A resource without fields is not known, and not compared. An answer to a request
// for a subresource proves nothing if the kind may lack the subresource: the server's
// answer is the same.
func IsNotFound(err error, resource schema.GroupResource, name string) bool {
	return absent.Proven(err, resource, name)
}
