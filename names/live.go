package names

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

// Live reads an object from the server instead of a cache. It returns false if
// the object is deleted. A reconciler calls it before it deletes what cannot be
// restored, because a cache may be late. c is the client of the object's
// namespace, such as clientset.CoreV1().Services(namespace).
//
// Live sends one GET. The server answers it from the latest committed state.
// The caller may modify the object.
//
// Live returns an error for any answer other than the object or a proof that it
// does not exist, as [IsNotFound] defines it. For example, a proxy's page with
// status 404 is an error, and so is the {} of a gateway with status 200.
func Live[T metav1.Object](ctx context.Context, c interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}, name string,
) (object T, ok bool, err error) {
	var zero T
	if bound.IsNil(c) {
		return zero, false, fmt.Errorf("confirming that %q is deleted: the client is nil", name)
	}
	object, err = c.Get(ctx, name, metav1.GetOptions{})
	if absent.Read[T](c, err, name) {
		return zero, false, nil
	}
	if err == nil {
		namespace, _ := bound.NamespaceOf(c)
		err = absent.Answer(object, &metav1.ObjectMeta{Namespace: namespace, Name: name})
	}
	if err != nil {
		return zero, false, fmt.Errorf("confirming that %q is deleted: %w", name, err)
	}
	return object, true, nil
}

// IsNotFound reports whether err proves that the object with this resource and
// name does not exist. Code should call it instead of apierrors.IsNotFound
// before it deletes, forgets or skips anything. apierrors.IsNotFound is true
// for any answer with status 404, such as the page of a proxy, or the answer
// for a version that a CustomResourceDefinition does not serve yet. Only an
// answer that the API server itself has sent, and that names this object, is a
// proof:
//
//	err := clientset.CoreV1().Pods(namespace).Delete(ctx, name, options)
//	if names.IsNotFound(err, corev1.Resource("pods"), name) {
//		err = nil // deleted already
//	}
//
// If err joins several errors, as the result of errors.Join does, each of them
// must be such a proof. An empty resource is not compared. The answer to a
// request for a subresource is a proof only if the kind is known to have that
// subresource. If it does not have it, the server's answer is the same,
// although the object exists.
//
// The error of a client of client-go has the code in the body of the answer,
// and not the status of the answer. So a gateway's answer with status 503 whose
// body is the API server's answer about this object is taken for a proof.
// Clients of package cluster return a different error for such an answer.
func IsNotFound(err error, resource schema.GroupResource, name string) bool {
	return absent.Proven(err, resource, name)
}
