// Package absent decides which errors prove that an object does not exist.
//
// A status of 404 alone proves nothing. A proxy, a gateway or a server that does
// not serve the version (yet) answers 404 for objects that exist, and client-go
// itself then fills in the name that was asked for. A proof is the API server's
// own answer about this object. The same goes for the statuses of a conflict and of an
// expired resourceVersion. Nor is a status of success one: package absent also decides
// which objects and lists can be the server's answer.
package absent

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/bound"
)

// Proven reports whether err is the API server's own answer that the object of
// that resource and name does not exist. A resource without fields is not known,
// and then not compared.
//
// The answer for a subresource proves nothing, because a server that does not have
// the subresource gives the same: do not ask Proven about it.
func Proven(err error, resource schema.GroupResource, name string) bool {
	details := detailsOf(err, name)
	return details != nil && (resource.Empty() || details.Kind == "" && details.Group == "" ||
		details.Kind == resource.Resource && details.Group == resource.Group)
}

// Namespace reports whether err proves that a namespace does not exist, as a server
// says of a write into it.
func Namespace(err error, name string) bool {
	details := detailsOf(err, name)
	return details != nil && details.Kind == "namespaces" && details.Group == ""
}

// Object reports whether err proves that obj does not exist, as [Proven] does. The
// resource is as far known as its type and its TypeMeta tell it.
func Object(err error, obj metav1.Object) bool {
	details := detailsOf(err, obj.GetName())
	if details == nil || details.Kind == "" {
		return details != nil
	}
	if o, ok := obj.(runtime.Object); ok {
		kind := o.GetObjectKind().GroupVersionKind()
		known := kind.Kind != "" && kind.Group != metav1.GroupName
		if known && (kind.Group != details.Group || details.Kind == "namespaces" && kind.Kind != "Namespace") {
			return false
		}
	}
	return maybe(reflect.TypeOf(obj), details.Kind)
}

// OfType reports whether err proves that the object of Go type T and that name does
// not exist.
func OfType[T metav1.Object](err error, name string) bool {
	details := detailsOf(err, name)
	return details != nil && (details.Kind == "" || maybe(reflect.TypeFor[T](), details.Kind))
}

// maybe reports whether objects of that Go type may be of the resource. It knows the
// kinds of k8s.io/api, whose types are named after them.
func maybe(t reflect.Type, resource string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
		return true
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: t.Name()})
	return plural.Resource == resource
}

// IsExpired reports whether err is the API server's own answer that it no longer
// remembers a resourceVersion.
func IsExpired(err error) bool {
	return (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && !IsForeign(err)
}

// IsForeign reports whether err is an answer that is not the API server's own:
// client-go has made it of the HTTP status alone, because the body was none.
func IsForeign(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, foreign)
}

// detailsOf returns the details of an answer "not found" that the API server itself
// has given about an object of that name, or nil.
func detailsOf(err error, name string) *metav1.StatusDetails {
	var answer apierrors.APIStatus
	if name == "" || !errors.As(err, &answer) {
		return nil
	}
	status := answer.Status()
	if status.Reason != metav1.StatusReasonNotFound || status.Code != http.StatusNotFound && status.Code != 0 {
		return nil
	}
	details := status.Details
	if details == nil || details.Name != name || byWebhook(status.Message) || IsForeign(err) {
		return nil
	}
	return details
}

// foreign reports whether client-go has written the status itself, because the body
// was not one.
func foreign(cause metav1.StatusCause) bool {
	return cause.Type == metav1.CauseTypeUnexpectedServerResponse
}

// byWebhook reports whether the answer is the refusal by an admission webhook, which
// may have passed on what it was told of an object of its own.
func byWebhook(message string) bool {
	return strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// Answer returns an error unless object can be the API server's answer about the object of
// that name, although the client has returned no error: client-go makes an object without
// fields of the {} of a gateway, and of an object of another kind.
func Answer(object metav1.Object, name string) error {
	if bound.IsNil(object) {
		return errors.New("the client has returned neither an object nor an error")
	}
	if got := object.GetName(); got != name {
		return fmt.Errorf("the answer is about the name %q, not %q: something in between has sent it", got, name)
	}
	return nil
}

// List returns an error unless list can be the API server's own, although the client has
// returned no error: client-go makes an empty list of the {} of a gateway, and of a list of
// another kind. Lists of the server have a resourceVersion, and those of fakes do not.
func List(list runtime.Object) error {
	kind := list.GetObjectKind().GroupVersionKind().Kind
	of, err := meta.ListAccessor(list)
	switch {
	case err != nil:
		return fmt.Errorf("the answer is no list: %w", err)
	case kind != "" && !strings.HasSuffix(kind, "List"):
		return fmt.Errorf("the answer is a %q, not a list: something in between has sent it", kind)
	case of.GetResourceVersion() == "":
		return errors.New("the answer is no list of the API server, since it has no resourceVersion: " +
			"something in between has sent it")
	}
	return nil
}
