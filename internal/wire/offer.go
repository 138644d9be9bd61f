package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// Offer lets the transport of a client that is hidden, such as the client
// inside a ListerWatcher, find the Specs of a watch: through the context of the
// request. Until the Offer is accepted, the watch delivers whole objects. It is
// safe for concurrent use.
type Offer struct {
	mu       sync.Mutex // guards the fields below
	specs    *Specs
	bodies   int  // number of watches that have found the offer
	accepted bool // whether the watch delivers placeholders
}

type offerKey struct{}

// NewOffer returns an offer of s, and a context for one call that opens a
// watch. The call must pass the context on to its request.
func NewOffer(ctx context.Context, s *Specs) (context.Context, *Offer) {
	o := &Offer{specs: s}
	if authenticatorErr != nil {
		s.setReason(authenticatorErr.Error())
		return ctx, o
	}
	s.setReason("no transport wrapped with clientgo.ReuseSpecs has sent the request of the watch")
	return context.WithValue(ctx, offerKey{}, o), o
}

// Accept makes the watch deliver placeholders from now on. The caller must have
// made sure that no code except client-go's decoder sees the objects of the
// watch before it does. Accept has no effect unless exactly one watch has found
// the offer, because another watch would belong to other code.
func (o *Offer) Accept() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted = o.bodies == 1
	if o.bodies > 1 {
		o.specs.setReason("the ListerWatcher opens several watches at once")
	}
}

// Examine returns an error if w, the watch that has found the offer, may need
// whole objects, and records the reason. For example, a watch of the program may
// filter by the spec, and a decoder of the program may set defaults in it.
// client-go's own watch with a decoder in plainDecoders needs no whole objects.
func (o *Offer) Examine(w watch.Interface) error {
	stream, ok := w.(*watch.StreamWatcher)
	if !ok {
		return o.decline(fmt.Sprintf("the ListerWatcher returns a %T, which may need whole objects", w))
	}
	if d := decoderOf(stream); d == nil || !slices.Contains(plainDecoders, d.PkgPath()+"."+d.Name()) {
		return o.decline(fmt.Sprintf("the client decodes objects with a %v, which may need whole objects", d))
	}
	return nil
}

// plainDecoders are the decoders of client-go and of controller-runtime, which
// change no field except the type.
//
//nolint:gochecknoglobals // a constant
var plainDecoders = []string{
	"k8s.io/apimachinery/pkg/runtime.WithoutVersionDecoder",
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil.targetZeroingDecoder",
}

// decoderOf returns the type of the decoder that a watch uses for its objects.
// If that is not known, it returns the type of the decoder that the watch uses
// for its events, or nil.
func decoderOf(stream *watch.StreamWatcher) reflect.Type {
	field := func(v reflect.Value, name string) reflect.Value {
		if v = v.FieldByName(name); !v.IsValid() || v.Kind() != reflect.Interface || v.IsNil() {
			return reflect.Value{}
		}
		return reflect.Indirect(v.Elem())
	}
	events := field(reflect.ValueOf(stream).Elem(), "source")
	if !events.IsValid() {
		return nil
	}
	if events.Type() != reflect.TypeFor[restwatch.Decoder]() {
		return events.Type()
	}
	if objects := field(events, "embeddedDecoder"); objects.IsValid() {
		return objects.Type()
	}
	return events.Type()
}

// decline records why the watch delivers whole objects.
func (o *Offer) decline(reason string) error {
	o.specs.setReason(reason)
	return errors.New(reason)
}

// found reports whether a watch may use the offer, and counts the watch if it
// may. An offer that has been accepted belongs to the watch for which it was
// accepted, so a later watch must not use it.
func (o *Offer) found() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.accepted {
		return false
	}
	o.bodies++
	return true
}

// current returns the Specs, or nil while the offer is not accepted.
func (o *Offer) current() *Specs {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.accepted {
		return nil
	}
	return o.specs
}

// Receiver returns a transport that sends requests through base. It finds the
// offers in their contexts. Other requests pass through unchanged.
func Receiver(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &receiver{base}
}

type receiver struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	o, ok := r.Context().Value(offerKey{}).(*Offer)
	if !ok || r.URL.Query().Get("watch") != "true" {
		return t.base.RoundTrip(r)
	}
	return (&transport{base: t.base, specs: o.specs, offer: o}).RoundTrip(r)
}

// WrappedRoundTripper returns the wrapped transport, like client-go's own
// transports do.
func (t *receiver) WrappedRoundTripper() http.RoundTripper { return t.base }
