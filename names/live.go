package names

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

// Live returns the object from the server instead of a cache, and false if it
// is deleted. A reconciler calls it before it deletes what cannot be restored,
// because a cache may be late. c is the client of the object's namespace, such
// as clientset.CoreV1().Services(namespace).
//
// Live sends one GET, which the server answers from the latest committed state.
// The caller may modify the object.
//
// Errors: any answer other than the object or a proof that it does not exist,
// as [IsNotFound] defines it. For example, a proxy's page with status 404 is an
// error, and so is the {} of a gateway with status 200.
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
	if err == nil {
		err = inNamespaceOf(c, object)
	}
	if err != nil {
		return none, false, fmt.Errorf("confirming that %q is deleted: %w", name, err)
	}
	return object, true, nil
}

// inNamespaceOf returns an error if the client shows that its namespace is not
// the object's. Objects of fakes may have no namespace.
func inNamespaceOf(client any, object metav1.Object) error {
	namespace, visible := bound.NamespaceOf(client)
	if got := object.GetNamespace(); visible && namespace != "" && got != "" && got != namespace {
		return fmt.Errorf("the answer is about the namespace %q, not %q: a proxy or gateway has sent it", got, namespace)
	}
	return nil
}

// IsNotFound reports whether err proves that the object with this resource and
// name does not exist. Code should call it instead of apierrors.IsNotFound
// before it deletes, forgets or skips anything. apierrors.IsNotFound is true
// for any answer with status 404: for example for the page of a proxy, or while
// a CustomResourceDefinition does not serve the version. A proof is the API
// server's own answer, and names this object:
//
//	err := clientset.CoreV1().Pods(namespace).Delete(ctx, name, options)
//	if names.IsNotFound(err, corev1.Resource("pods"), name) {
//		err = nil // deleted already
//	}
//
// An empty resource is not compared. The answer to a request for a subresource
// proves nothing if the kind may not have that subresource, because the
// server's answer is the same in that case.
func IsNotFound(err error, resource schema.GroupResource, name string) bool {
	return absent.Proven(err, resource, name)
}
