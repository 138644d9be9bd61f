package itemwise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/clients"
)

// Object is any API object, as informer.Object is.
type Object interface {
	metav1.Object
	runtime.Object
}

// Refusal explains why an object cannot be cached. It has a cause, as in
// informer.Problem, and the details.
type Refusal struct {
	Cause string
	Err   error
}

// Causes of refusals.
const (
	CauseDecode    = "not decodable"
	CauseKind      = "another kind"
	CauseTransform = "Transform panics"
	CauseIndex     = "index panics"
)

// Panicked returns the refusal of an object for which function has panicked
// with value.
func Panicked(cause, function string, value any) *Refusal {
	return &Refusal{cause, fmt.Errorf("%s: panic: %v\n%s", function, value, debug.Stack())}
}

// stubMark begins the selfLink of a stub, and the reason follows it. No server
// can guess the mark, and current servers send no selfLink. stubEnd separates
// the cause from the details.
//
//nolint:gochecknoglobals // one for the process
var stubMark = "unreadable:" + rand.Text() + ":"

const stubEnd = ": "

// Stub returns a placeholder for an object that cannot be cached. The
// placeholder passes through client-go's reflector in place of the object. The
// placeholder has the metadata in identity, and its selfLink contains stubMark
// and the reason. Stub returns false if T has no ObjectMeta.
func Stub[T Object](identity metav1.ObjectMeta, refusal *Refusal) (stub T, ok bool) {
	identity.SelfLink = stubMark + refusal.Cause + stubEnd + refusal.Err.Error() //nolint:staticcheck // no server uses it
	object := clients.Example[T]()
	if object == nil { // T is an interface
		object = &metav1.PartialObjectMetadata{}
	}
	if u, generic := object.(*unstructured.Unstructured); generic {
		u.SetName(identity.Name)
		u.SetNamespace(identity.Namespace)
		u.SetUID(identity.UID)
		u.SetResourceVersion(identity.ResourceVersion)
		u.SetSelfLink(identity.SelfLink) //nolint:staticcheck // as above
		u.SetLabels(identity.Labels)
		u.SetOwnerReferences(identity.OwnerReferences)
	} else if metadata := metadataOf(object); metadata != nil {
		*metadata = identity
	} else {
		return stub, false
	}
	stub, ok = object.(T)
	return stub, ok
}

// metadataOf returns the ObjectMeta that object embeds, or nil if it does not
// embed one.
func metadataOf(object any) *metav1.ObjectMeta {
	v := reflect.ValueOf(object)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	field := v.Elem().FieldByName("ObjectMeta")
	if !field.IsValid() || !field.CanAddr() {
		return nil
	}
	metadata, _ := reflect.TypeAssert[*metav1.ObjectMeta](field.Addr())
	return metadata
}

// RefusalOf returns why an object cannot be cached, if the argument is a stub
// of that object. Otherwise it returns nil.
func RefusalOf(object Object) *Refusal {
	mark, isStub := strings.CutPrefix(object.GetSelfLink(), stubMark)
	if !isStub {
		return nil
	}
	cause, details, _ := strings.Cut(mark, stubEnd)
	return &Refusal{cause, errors.New(details)}
}

// isStub reports whether an object is a stub.
func isStub(object runtime.Object) bool {
	o, ok := object.(Object)
	return ok && RefusalOf(o) != nil
}

// Identity returns only those members of an object's metadata that a stub of
// the object needs, such as its name and UID.
func Identity(object Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
	}
}
