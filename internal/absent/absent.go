// Package absent decides which errors prove that an object does not exist, and
// which answers of a server are about the requested object.
//
// The status 404 alone is not a proof. A proxy, a gateway, or a server that
// does not serve the version yet answers 404 for objects that exist, and
// client-go itself then fills in the requested name. Only the API server's own
// answer about this object is a proof. The same applies to the status of a
// conflict, to the status of an expired resourceVersion, to success, and to the
// review of a permission.
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
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/suspect"
)

// Proven reports whether err is the API server's own answer that the object
// with that resource and name does not exist. Proven compares only the name if
// resource is empty, or if the answer names no resource. If err joins several
// errors, each of them must be such an answer.
//
// The answer for a subresource is not a proof, since a server without the
// subresource gives the same answer. Do not call Proven for it.
func Proven(err error, resource schema.GroupResource, name string) bool {
	return isAbout(err, name, func(details *metav1.StatusDetails) bool {
		return resource.Empty() || details.Kind == "" && details.Group == "" ||
			details.Kind == resource.Resource && details.Group == resource.Group
	})
}

// Namespace reports whether err proves that a namespace does not exist. The API
// server returns such an error for a write into a missing namespace.
func Namespace(err error, name string) bool {
	return isAbout(err, name, func(details *metav1.StatusDetails) bool {
		return details.Kind == "namespaces" && details.Group == ""
	})
}

// Object reports whether err proves that obj does not exist, as [Proven] does.
// It compares the resource only as far as obj's Go type and TypeMeta reveal it.
func Object(err error, obj metav1.Object) bool {
	return isAbout(err, obj.GetName(), func(details *metav1.StatusDetails) bool {
		return details.Kind == "" || mayBeOf(obj, details)
	})
}

// mayBeOf reports whether obj may belong to the resource in details.
func mayBeOf(obj metav1.Object, details *metav1.StatusDetails) bool {
	if o, ok := obj.(runtime.Object); ok {
		kind := o.GetObjectKind().GroupVersionKind()
		known := kind.Kind != "" && kind.Group != metav1.GroupName
		if known && (kind.Group != details.Group || details.Kind == "namespaces" && kind.Kind != "Namespace") {
			return false
		}
	}
	return mayBelong(reflect.TypeOf(obj), details)
}

// OfType reports whether err proves that the object of Go type T with the given
// name does not exist.
func OfType[T metav1.Object](err error, name string) bool {
	return isAbout(err, name, func(details *metav1.StatusDetails) bool {
		return details.Kind == "" || mayBelong(reflect.TypeFor[T](), details)
	})
}

// From reports whether err, the answer to client's request about obj, proves
// that obj does not exist, as [Object] does. It also compares what the client
// shows: the resource, and the namespace. The API server's answer does not name
// the namespace. So for a client that does not show its own namespace, the
// answer is not a proof: it may be about an object of that name in another
// namespace.
func From(client any, err error, obj metav1.Object) bool {
	return Object(err, obj) && aboutResource(client, err, obj.GetName()) &&
		(obj.GetNamespace() == "" || shows(client, obj.GetNamespace()))
}

// Read reports whether err, the answer to client's GET of the name, proves that
// the object of Go type T does not exist. It also compares the resource that
// the client shows.
func Read[T metav1.Object](client any, err error, name string) bool {
	return OfType[T](err, name) && aboutResource(client, err, name)
}

// aboutResource reports whether err may be about the resource that a client
// reads.
func aboutResource(client any, err error, name string) bool {
	resource := clients.ResourceOf(client).GroupResource()
	return resource.Resource == "" || Proven(err, resource, name)
}

// shows reports whether a client shows that its requests go to this namespace.
func shows(client any, namespace string) bool {
	reach := clients.ReachOf(client)
	return reach.Certainty != clients.Unknown && reach.Namespace == namespace
}

// mayBelong reports whether objects of Go type t may belong to the resource in
// details. Types of k8s.io/api are named after their kinds and belong to one
// resource only. A type of k8s.io/apimachinery, such as Unstructured, may
// belong to any resource, and so may a type with the name Namespace. Other
// types may belong to any resource except namespaces, because custom kinds
// cannot be namespaces.
func mayBelong(t reflect.Type, details *metav1.StatusDetails) bool {
	kind, _, ok := clients.BuiltIn(t)
	if !ok {
		t = elem(t)
		return strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") || t.Name() == "Namespace" ||
			details.Kind != "namespaces" || details.Group != ""
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.Resource == details.Kind && plural.Group == details.Group
}

func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// IsExpired reports whether err is the API server's own answer that the
// resourceVersion in a request is too old.
func IsExpired(err error) bool {
	return (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && !IsForeign(err)
}

// IsConflict reports whether err is the API server's own answer that the object
// has changed or exists already. An admission webhook may also refuse a request
// with status 409, for a reason of its own. IsConflict returns false for such
// an error. If err joins several errors, each of them must be such an answer.
func IsConflict(err error) bool {
	return each(err, func(err error) bool {
		var answer apierrors.APIStatus
		return (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && !IsForeign(err) &&
			(!errors.As(err, &answer) || !IsWebhookRefusal(answer.Status().Message))
	})
}

// each reports whether is returns true for err or, if err joins several errors,
// for each of them.
func each(err error, is func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return is(err)
	}
	errs := joined.Unwrap()
	return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return err != nil && !each(err, is) })
}

// IsForeign reports whether err is an answer that is not the API server's own.
// client-go makes such an error from the HTTP status alone, because the body of
// the answer is not a Status.
func IsForeign(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, foreign)
}

// isAbout reports whether err is the API server's own answer that the object
// with the given name was not found, and the predicate accepts the details of
// that answer. An error that joins several errors is such an answer only if all
// of them are. For example, errors.Join of a deletion that was not found and
// one that was not answered proves nothing.
func isAbout(err error, name string, is func(*metav1.StatusDetails) bool) bool {
	return each(err, func(err error) bool {
		details := detailsOf(err, name)
		return details != nil && is(details)
	})
}

// detailsOf returns the details of err if the API server itself has answered
// that the object with the given name was not found. Otherwise it returns nil.
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
	if details == nil || details.Name != name || IsWebhookRefusal(status.Message) || IsForeign(err) {
		return nil
	}
	return details
}

// foreign reports whether client-go has added the cause because the body was
// not a Status.
func foreign(cause metav1.StatusCause) bool {
	return cause.Type == metav1.CauseTypeUnexpectedServerResponse
}

// IsWebhookRefusal reports whether message is the refusal of an admission
// webhook. The webhook may have made a request of its own, and may quote the
// answer to it. That answer is about a different object, and about a different
// account.
func IsWebhookRefusal(message string) bool {
	return strings.HasPrefix(message, "admission webhook ") && strings.Contains(message, " denied the request")
}

// Answer checks an answer for which the client has returned no error. It
// returns an error if object cannot be the API server's answer about want: if
// it is nil, if its name differs, if its namespace differs and both are set, or
// if want has a UID and object does not. For example, client-go makes an object
// without a name from the body {} of a gateway.
//
// Answer accepts an object with a different UID, which is a recreated object.
// It also accepts objects of fakes, which may have no UID and no namespace.
func Answer(object, want metav1.Object) error {
	if bound.IsNil(object) {
		return errors.New("the client has returned neither an object nor an error")
	}
	fault := ""
	switch got, asked := bound.KeyOf(object), bound.KeyOf(want); {
	case got.Name != asked.Name:
		fault = fmt.Sprintf("is about the name %q, not %q", got.Name, asked.Name)
	case got.Namespace != asked.Namespace && got.Namespace != "" && asked.Namespace != "":
		fault = fmt.Sprintf("is about the namespace %q, not %q", got.Namespace, asked.Namespace)
	case object.GetUID() == "" && want.GetUID() != "":
		fault = "has no UID"
	default:
		return nil
	}
	return suspect.Answerf("the answer %s", fault)
}

// ErrUnversioned is the error for a list without a resourceVersion. Some
// aggregated API servers send such lists.
var ErrUnversioned = suspect.Answerf("the list has no resourceVersion, as each list of the API server has")

// List checks a list for which the client has returned no error. It returns an
// error if list cannot be the API server's own answer: if it is an object and
// not a list, if it has no resourceVersion, or if its remainingItemCount is more
// than 0 although it has no continue token, so that the rest of the list cannot
// be read. For example, client-go makes a list without a resourceVersion from
// the body {} of a gateway. Lists of fakes have no resourceVersion, so List
// returns an error for them, too.
//
// The error is [ErrUnversioned] if list has items, or an empty array of them,
// but no resourceVersion.
func List(list runtime.Object) error {
	kind := list.GetObjectKind().GroupVersionKind().Kind
	accessor, err := meta.ListAccessor(list)
	switch {
	case err != nil:
		return fmt.Errorf("the answer is not a list: %w", err)
	case kind != "" && !strings.HasSuffix(kind, "List") && lacksItems(list):
		return suspect.Answerf("the answer is a %q, not a list", kind)
	case accessor.GetResourceVersion() == "" && lacksItems(list):
		return suspect.Answerf("the answer has neither items nor a resourceVersion, so it is not a list")
	case accessor.GetResourceVersion() == "":
		return ErrUnversioned
	case accessor.GetContinue() == "" && accessor.GetRemainingItemCount() != nil && *accessor.GetRemainingItemCount() > 0:
		return suspect.Answerf("the list lacks %d objects but has no continue token",
			*accessor.GetRemainingItemCount())
	}
	return nil
}

// lacksItems reports whether the answer that was decoded as a list had no
// items, not even an empty array of them. A CustomResourceDefinition may name
// its lists as it likes (spec.names.listKind), so the kind of a list alone
// proves nothing.
func lacksItems(list runtime.Object) bool {
	items, err := meta.GetItemsPtr(list)
	return err != nil || reflect.ValueOf(items).Elem().IsNil()
}
