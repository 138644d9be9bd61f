package wire

import (
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/rest"
)

// Through returns a copy of c whose watches bring placeholders, and leave out what
// keep does not want, or says why that would not be safe. See [Through].
func (s *Specs) Through(c rest.Interface, keep Keep) (through rest.Interface, why string) {
	if refused != nil {
		return nil, refused.Error()
	}
	return via(c, s, keep)
}

// Through returns a copy of c whose lists and watches leave out what keep does not
// want, or says why that would not be safe. The copy differs from c in its transport
// alone, which is in an exported field.
func Through(c rest.Interface, keep Keep) (through rest.Interface, why string) {
	return via(c, nil, keep)
}

func via(c rest.Interface, s *Specs, keep Keep) (through rest.Interface, why string) {
	from, ok := c.(*rest.RESTClient)
	if !ok || from == nil {
		return nil, fmt.Sprintf("the client sends its requests with a %T", c)
	}
	// Such a client writes to itself, while it is used, that the server does not.
	if features.FeatureGates().Enabled(features.ClientsAllowCBOR) {
		return nil, "the client may speak CBOR"
	}
	if !copyable(reflect.TypeFor[rest.RESTClient](), cborFlag) {
		return nil, "the rest.RESTClient of this client-go cannot be copied"
	}
	to := &rest.RESTClient{}
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	client := http.Client{}
	if from.Client != nil {
		client = *from.Client
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = &transport{client.Transport, s, keep}
	to.Client = &client
	return to, ""
}

// cborFlag is the only field that changes, and only with CBOR.
const cborFlag = "sawUnsupportedMediaTypeForCBOR"

// copyable reports whether values of t can be copied while they are used: apart from
// the field except, nothing in them is a lock or marked as one for go vet.
func copyable(t reflect.Type, except string) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[sync.Locker]()) {
		return false
	}
	switch t.Kind() {
	case reflect.Array:
		return copyable(t.Elem(), except)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Name != except && !copyable(f.Type, except) {
				return false
			}
		}
	}
	return true
}

// transport replaces the bodies of watches, and of lists if keep is set.
type transport struct {
	next  http.RoundTripper
	specs *Specs // nil if all specs are decoded
	keep  Keep   // nil if all objects are wanted
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	mediaType, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch encoding := answer.Header.Get("Content-Encoding"); {
	case err != nil || mediaType != runtime.ContentTypeProtobuf:
		t.specs.because(fmt.Sprintf("the server sends %q", answer.Header.Get("Content-Type")))
	case encoding != "":
		t.specs.because(fmt.Sprintf("the server sends content encoded with %q", encoding))
	case t.keep != nil && r.URL.Query().Get("watch") == "":
		answer.Body, answer.ContentLength = t.keep.list(answer.Body), -1
		answer.Header.Del("Content-Length")
	default:
		t.specs.because("")
		answer.Body = newBody(answer.Body, t.specs, t.keep)
	}
	return answer, nil
}

// WrappedRoundTripper returns the transport below, as client-go's own do.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
