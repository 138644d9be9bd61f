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

// Client returns a copy of c whose watches deliver placeholders, and whose
// lists and watches omit objects that keep does not want. If that would not be
// safe, it returns nil and the reason. Answers in a format other than protobuf
// are not changed. See [Filter].
func (s *Specs) Client(c rest.Interface, keep Keep) (filtered rest.Interface, reason string) {
	if authenticatorErr != nil {
		return nil, authenticatorErr.Error()
	}
	return withTransport(c, s, keep)
}

// Filter returns a copy of c whose lists and watches omit objects that keep
// does not want. If that would not be safe, it returns nil and the reason, such
// as "the client may speak CBOR". Answers in a format other than protobuf, such
// as JSON, still contain all objects. The copy differs from c only in the
// transport in its field Client.
func Filter(c rest.Interface, keep Keep) (filtered rest.Interface, reason string) {
	return withTransport(c, nil, keep)
}

func withTransport(c rest.Interface, s *Specs, keep Keep) (filtered rest.Interface, reason string) {
	original, ok := c.(*rest.RESTClient)
	if !ok || original == nil {
		return nil, fmt.Sprintf("the client sends its requests with a %T", c)
	}
	// Such a client records in itself that the server does not speak CBOR.
	if features.FeatureGates().Enabled(features.ClientsAllowCBOR) {
		return nil, "the client may speak CBOR"
	}
	if !copyable(reflect.TypeFor[rest.RESTClient](), cborFlag) {
		return nil, "the rest.RESTClient of this client-go cannot be copied"
	}
	copied := &rest.RESTClient{}
	reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(original).Elem())
	client := http.Client{}
	if original.Client != nil {
		client = *original.Client
	}
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	client.Transport = &transport{base: client.Transport, specs: s, keep: keep}
	copied.Client = &client
	return copied, ""
}

// cborFlag names the only field of a client that changes while the client is
// used. It changes only if the client uses CBOR.
const cborFlag = "sawUnsupportedMediaTypeForCBOR"

// copyable reports whether values of t can be copied while they are used. Such
// values must not contain a lock, or a field that go vet considers to be a
// lock. The field named ignored is not checked.
func copyable(t reflect.Type, ignored string) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[sync.Locker]()) {
		return false
	}
	switch t.Kind() {
	case reflect.Array:
		return copyable(t.Elem(), ignored)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Name != ignored && !copyable(f.Type, ignored) {
				return false
			}
		}
	}
	return true
}

// transport replaces the bodies of watches, and of lists if keep is set.
type transport struct {
	base  http.RoundTripper
	specs *Specs // nil if all specs are decoded
	keep  Keep   // nil if all objects are wanted
	offer *Offer // nil unless specs are used only once the offer is accepted
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.base.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	mediaType, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch encoding := answer.Header.Get("Content-Encoding"); {
	case err != nil || mediaType != runtime.ContentTypeProtobuf:
		t.specs.setReason(fmt.Sprintf("the server sends %q", answer.Header.Get("Content-Type")))
	case encoding != "":
		t.specs.setReason(fmt.Sprintf("the server sends content encoded with %q", encoding))
	case t.keep != nil && r.URL.Query().Get("watch") == "":
		answer.Body, answer.ContentLength = t.keep.list(answer.Body), -1
		answer.Header.Del("Content-Length")
	case t.offer == nil:
		t.specs.setReason("")
		answer.Body = newBody(answer.Body, t.specs, t.keep)
	case t.offer.found():
		t.specs.setReason("")
		answer.Body = newOfferedBody(answer.Body, t.offer)
	}
	return answer, nil
}

// WrappedRoundTripper returns the wrapped transport, like client-go's own
// transports do.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }
