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

	"github.com/homeostat/homeostat/informer/internal/clients"
)

// Object is any API object, as informer.Object is.
type Object interface {
	metav1.Object
	runtime.Object
}

// Refusal is why an object cannot be cached: a cause as in informer.Problem,
// and the details.
type Refusal struct {
	Cause string
	Err   error
}

// Causes of refusals.
const (
	CauseDecode    = "not decodable"
	CauseTransform = "Transform panics"
	CauseIndex     = "index panics"
)

// Panicked returns the refusal of a function that has panicked with value.
func Panicked(cause, function string, value any) *Refusal {
	return &Refusal{cause, fmt.Errorf("%s: panic: %v\n%s", function, value, debug.Stack())}
}

// stubMark begins the selfLink of a stub, and the reason follows it. No server
// can guess the mark, and no server of today sends a selfLink. stubEnd separates
// the cause from the details.
//
//nolint:gochecknoglobals // one for the process
var stubMark = "unreadable:" + rand.Text() + ":"

const stubEnd = ": "

// Stub returns an object that stands for one that cannot be cached, on its way
// through client-go's reflector. The stub has the metadata like, and the reason
// in its mark. Stub returns false for a T that has no ObjectMeta.
func Stub[T Object](like metav1.ObjectMeta, why *Refusal) (stub T, ok bool) {
	like.SelfLink = stubMark + why.Cause + stubEnd + why.Err.Error() //nolint:staticcheck // servers no longer use it
	object := clients.Example[T]()
	if object == nil { // of an interface
		object = &metav1.PartialObjectMetadata{}
	}
	if u, generic := object.(*unstructured.Unstructured); generic {
		u.Object = map[string]any{"metadata": map[string]any{
			"name": like.Name, "namespace": like.Namespace, "uid": string(like.UID),
			"resourceVersion": like.ResourceVersion, "selfLink": like.SelfLink, //nolint:staticcheck // as above
		}}
	} else if metadata := metadataOf(object); metadata != nil {
		*metadata = like
	} else {
		return stub, false
	}
	stub, ok = object.(T)
	return stub, ok
}

// metadataOf returns the ObjectMeta that object embeds, nil if it embeds none.
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

// Why returns why an object cannot be cached if it is a stub, and nil otherwise.
func Why(object Object) *Refusal {
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
	return ok && Why(o) != nil
}

// Identity returns the metadata that a stub of an object needs.
func Identity(object Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
	}
}
