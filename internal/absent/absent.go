// Package absent decides which errors prove that an object does not exist, and
// which answers of a server are about the requested object.
//
// The status 404 alone is not a proof. A proxy, a gateway, or a server that
// does not serve the version yet answers 404 for objects that exist, and
// client-go itself then fills in the requested name. Only the API server's own
// answer about this object is a proof. The same applies to the status of a
// conflict, to the status of an expired resourceVersion, and to success.
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

// Proven reports whether err is the API server's own answer that the object
// with that resource and name does not exist. An empty resource is unknown and
// not compared.
//
// The answer for a subresource is not a proof, since a server without the
// subresource gives the same answer. Do not call Proven for it.
func Proven(err error, resource schema.GroupResource, name string) bool {
	details := detailsOf(err, name)
	return details != nil && (resource.Empty() || details.Kind == "" && details.Group == "" ||
		details.Kind == resource.Resource && details.Group == resource.Group)
}

// Namespace reports whether err proves that a namespace does not exist. A
// server answers so to a write into a missing namespace.
func Namespace(err error, name string) bool {
	details := detailsOf(err, name)
	return details != nil && details.Kind == "namespaces" && details.Group == ""
}

// Object reports whether err proves that obj does not exist, as [Proven] does.
// It compares the resource as far as it is known from obj's Go type and
// TypeMeta.
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

// OfType reports whether err proves that the object with Go type T and that
// name does not exist.
func OfType[T metav1.Object](err error, name string) bool {
	details := detailsOf(err, name)
	return details != nil && (details.Kind == "" || maybe(reflect.TypeFor[T](), details.Kind))
}

// maybe reports whether objects of Go type t may belong to the resource. It
// knows the types of k8s.io/api, which are named after their kinds, and that no
// type of a custom kind is for namespaces.
func maybe(t reflect.Type, resource string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path := t.PkgPath(); {
	case strings.HasPrefix(path, "k8s.io/apimachinery/"): // any kind
		return true
	case !strings.HasPrefix(path, "k8s.io/api/"):
		return resource != "namespaces" || t.Name() == "Namespace"
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: t.Name()})
	return plural.Resource == resource
}

// IsExpired reports whether err is the API server's own answer that it no
// longer remembers a resourceVersion.
func IsExpired(err error) bool {
	return (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && !IsForeign(err)
}

// IsForeign reports whether err is an answer that is not the API server's own.
// client-go then has made the error from the HTTP status alone, because the
// body was not a Status.
func IsForeign(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, foreign)
}

// detailsOf returns the details of err if the API server itself has answered
// that an object with that name was not found, and nil otherwise.
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

// foreign reports whether client-go has added the cause because the body was
// not a Status.
func foreign(cause metav1.StatusCause) bool {
	return cause.Type == metav1.CauseTypeUnexpectedServerResponse
}

// byWebhook reports whether message is the refusal of an admission webhook. The
// webhook may have passed on an answer about a different object that it uses
// itself.
func byWebhook(message string) bool {
	return strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// Answer returns an error unless object can be the API server's answer about
// the object with that name. It is for answers for which the client has
// returned no error. For example, client-go makes an object without fields from
// the {} of a gateway, and from an object of another kind.
func Answer(object metav1.Object, name string) error {
	if bound.IsNil(object) {
		return errors.New("the client has returned neither an object nor an error")
	}
	if got := object.GetName(); got != name {
		return fmt.Errorf("the answer is about the name %q, not %q: a proxy or gateway has sent it", got, name)
	}
	return nil
}

// List returns an error unless list can be the API server's own answer. It is
// for answers for which the client has returned no error. For example,
// client-go makes an empty list from the {} of a gateway, and from a list of
// another kind. Lists of the server have a resourceVersion, but lists of fakes
// do not.
func List(list runtime.Object) error {
	kind := list.GetObjectKind().GroupVersionKind().Kind
	accessor, err := meta.ListAccessor(list)
	switch {
	case err != nil:
		return fmt.Errorf("the answer is not a list: %w", err)
	case kind != "" && !strings.HasSuffix(kind, "List"):
		return fmt.Errorf("the answer is a %q, not a list: a proxy or gateway has sent it", kind)
	case accessor.GetResourceVersion() == "":
		return errors.New("the answer is not a list of the API server, since it has no resourceVersion: " +
			"a proxy or gateway has sent it")
	}
	return nil
}
