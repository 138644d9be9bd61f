// Package itemwise lists and watches with a client of client-go, and decodes
// the objects one by one. So an object that Go cannot decode does not affect
// the others: a [Stub] takes its place.
//
//	reader := itemwise.New[*corev1.Pod](client, requests, resource)
//	list, err := reader.List(ctx, opts)
//	...
//	if why := itemwise.RefusalOf(object); why != nil {
//		// object is a stub, and why says what cannot be decoded
//	}
//
// For example, a Pod whose spec.nodeName is a number makes client-go refuse the
// whole list of Pods. This package returns the list with a stub for that Pod,
// and the stub says "spec.nodeName: this number cannot be decoded as string".
//
//	informer ──▶ Reader ──▶ the client        until an object cannot be decoded
//	                   └──▶ requests of its own, decoded object by object
//
// The informer passes its client to a [Reader], as [Requests], and lists and
// watches with the Reader.
package itemwise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/suspect"
)

// Requests sends the requests of an informer. It is a client whose methods do
// not depend on the type of its lists. Implementations must be in package
// informer and call the client directly, because [clients.Asked] looks for
// their methods on the stack.
type Requests interface {
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Reader lists and watches with a client. Once an object cannot be decoded, it
// sends the requests itself, and decodes their objects one by one.
//
// For clients of package cluster, the Reader sends all requests itself from the
// start. Other clients may do more than send a request. For example, one may
// add a label selector to each list. So the Reader takes over only from
// client-go's own clients, and from clients whose methods it has seen to send
// the request and do nothing else.
type Reader struct {
	client Requests
	name   string // the Go type of the client, for errors
	fake   bool
	sender *sender // nil if it is not known how the client sends its requests
}

// New returns a Reader of the objects of a resource. reqs sends its requests
// with client. The Reader never takes over for fakes, or for clients that hide
// how they send their requests.
func New[T Object](client any, reqs Requests, resource schema.GroupVersionResource) *Reader {
	return &Reader{
		client: reqs, name: fmt.Sprintf("%T", client), fake: clients.IsFake(client), sender: senderOf[T](client, resource),
	}
}

// IsOn reports whether the Reader sends all requests itself. It returns false
// for a nil Reader.
func (r *Reader) IsOn() bool { return r != nil && r.sender.isOn() }

// List returns a list, or a page of one. If the client cannot decode an object,
// and the Reader can take over, List sends the request a second time and
// decodes the objects one by one.
func (r *Reader) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if r.sender.isOn() {
		return r.sender.list(ctx, opts)
	}
	asked := &clients.Asked{Context: ctx}
	answer, err := r.client.List(asked, opts)
	switch {
	case !IsUndecodable(ctx, err) && (err != nil || !r.sender.hasOtherKind(answer)):
		return answer, err
	case r.sender != nil && asked.IsDirect(&r.sender.lists):
	case r.fake, r.sender == nil && !SoundsUndecodable(err):
		return answer, err
	case err == nil:
		return nil, suspect.Answerf("the list has an object that is not of kind %q", r.sender.kind)
	default:
		return answer, fmt.Errorf("%w (objects that cannot be decoded cannot be skipped, because the client %s does not "+
			"show its REST client, or does more than send requests)", err, r.name)
	}
	deep := isNested(err)
	answer, err = r.sender.list(ctx, opts)
	if list, ok := answer.(*List); ok && (deep || slices.ContainsFunc(list.Items, isStub)) && r.sender.watches.Load() {
		r.sender.enabled.Store(true)
	}
	return answer, err
}

// Watch opens a watch. If the Reader can take over from the client, the
// client's watch ends without an error when an object cannot be decoded, and
// the Reader itself opens the next one. Otherwise Watch returns the client's
// watch unchanged.
func (r *Reader) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if r.sender.isOn() {
		return r.sender.watch(ctx, opts)
	}
	asked := &clients.Asked{Context: ctx}
	w, err := r.client.Watch(asked, opts)
	s := r.sender
	takesOver := s != nil && asked.IsDirect(&s.watches) && s.lists.Load() && !s.protobuf
	if err != nil || !takesOver || requests.IsEmpty(w) {
		return w, err
	}
	return requests.NewEndable(w, s.endsUndecodable), nil
}

// sender sends the requests of a client in place of that client, through the
// same connection. It decodes the objects in the answers one by one.
type sender struct {
	client              rest.Interface
	resource, namespace string
	version             string // the resource's version, with its group
	kind                string // the kind of the objects; empty if the client does not show it
	metadataOnly        bool
	protobuf            bool // the Go type decodes protobuf, which does not fail for a single object
	// lists and watches are true once it is known that the client's methods
	// List and Watch send the request and do nothing else.
	lists, watches atomic.Bool
	// enabled is true when the sender sends all requests.
	enabled atomic.Bool
}

// clusterClients is the package whose clients are read object by object from
// the start.
const clusterClients = "github.com/homeostat/homeostat/cluster"

// senderOf returns a sender of the requests of a client, and nil if it is not
// known how to send them.
func senderOf[T Object](client any, resource schema.GroupVersionResource) *sender {
	_, ok := Stub[T](metav1.ObjectMeta{}, &Refusal{CauseDecode, errNested})
	if !ok || resource.Resource == "" || clients.IsFake(client) {
		return nil
	}
	original := clients.SenderOf(client)
	restClient := original.REST
	if restClient == nil || restClient.Client == nil {
		return nil
	}
	s := &sender{
		resource: resource.Resource, version: resource.GroupVersion().String(), namespace: original.Namespace,
		kind: clients.KindOf[T](client), metadataOnly: reflect.TypeFor[T]() == metadataType,
	}
	_, s.protobuf = clients.Example[T]().(interface{ Unmarshal(data []byte) error })
	base := restClient.Get().URL()
	if !original.Versioned {
		base = restClient.Get().AbsPath(pathOf(resource.GroupVersion())).URL()
	}
	made, err := rest.NewRESTClient(base, "", rest.ClientContentConfig{
		ContentType: runtime.ContentTypeJSON, GroupVersion: resource.GroupVersion(),
		Negotiator: newObjectDecoder[T](resource.GroupVersion(), s.kind),
	}, restClient.GetRateLimiter(), restClient.Client)
	if err != nil {
		return nil
	}
	s.client = made
	pkg := clients.PackageOf(clients.Unwrapped(client))
	s.enabled.Store(pkg == clusterClients)
	known := pkg == clusterClients || strings.HasPrefix(pkg, "k8s.io/client-go/")
	s.lists.Store(known)
	s.watches.Store(known)
	return s
}

//nolint:gochecknoglobals // a type
var metadataType = reflect.TypeFor[*metav1.PartialObjectMetadata]()

func pathOf(v schema.GroupVersion) string {
	if v.Group == "" {
		return "/api/" + v.Version
	}
	return "/apis/" + v.Group + "/" + v.Version
}

// isOn reports whether s sends all requests. It returns false for a nil sender.
func (s *sender) isOn() bool { return s != nil && s.enabled.Load() }

// hasOtherKind reports whether an object of list says that it is of another
// kind. The API server lists no such object.
func (s *sender) hasOtherKind(list runtime.Object) bool {
	if s == nil || s.metadataOnly {
		return false
	}
	want := metav1.TypeMeta{Kind: s.kind, APIVersion: s.version}
	if want.Kind == "" { // the client reads untyped objects, and their list shows the kind
		want.Kind = listedKind(list.GetObjectKind().GroupVersionKind().Kind, kindsIn(list))
	}
	return meta.EachListItem(list, func(object runtime.Object) error { return otherKind(object, want) }) != nil
}

// kindsIn returns the kinds that the objects of list name.
func kindsIn(list runtime.Object) iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			if !yield(object.GetObjectKind().GroupVersionKind().Kind) {
				return errors.New("stopped by the caller")
			}
			return nil
		})
	}
}

// list sends a request for a list, or for a page of one.
func (s *sender) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.request(&opts, "PartialObjectMetadataList").Do(ctx).Get()
}

// watch opens a watch.
func (s *sender) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return s.request(&opts, "PartialObjectMetadata").Watch(ctx)
}

func (s *sender) request(opts *metav1.ListOptions, metadataKind string) *rest.Request {
	r := s.client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
		VersionedParams(opts, metav1.ParameterCodec)
	if s.metadataOnly {
		r.SetHeader("Accept", "application/json;as="+metadataKind+";g=meta.k8s.io;v=v1,application/json")
	}
	if opts.TimeoutSeconds != nil {
		r.Timeout(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	return r
}

// IsUndecodable reports whether a request has failed because its answer cannot
// be decoded, as far as the error shows. It is false if the server has not
// answered, has answered with an error, or has broken off its answer.
func IsUndecodable(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || utilnet.IsProbableEOF(err) || strings.Contains(err.Error(), "response body") {
		return false
	}
	var status apierrors.APIStatus
	var unsent *url.Error
	var network net.Error
	if errors.As(err, &status) || errors.As(err, &unsent) || errors.As(err, &network) {
		return false
	}
	return !slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded},
		func(target error) bool { return errors.Is(err, target) })
}

// SoundsUndecodable reports whether the text of an error is about decoding. The
// error may be from any client. For example, it returns true for "json: cannot
// unmarshal string".
func SoundsUndecodable(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{
		"json:", "unmarshal", "decod", "parsing time", "time: ", "quantities must match",
	}, func(word string) bool { return strings.Contains(text, word) })
}

// clientWatchDecoding is the cause in client-go's error about an event that it
// cannot decode. If the reason is the event's object, the error's text contains
// undecodableObject.
const (
	clientWatchDecoding = metav1.CauseType("ClientWatchDecoding")
	undecodableObject   = "unable to decode watch event"
)

// endsUndecodable reports whether an event is the error of an object that
// client-go cannot decode. If so, it also enables s. The watch then ends
// without an error, and the reflector opens the next one where this one ended.
// After an error, a reflector would list all objects again.
func (s *sender) endsUndecodable(event watch.Event) bool {
	if event.Type != watch.Error {
		return false
	}
	cause, ok := apierrors.StatusCause(apierrors.FromObject(event.Object), clientWatchDecoding)
	if !ok || !strings.Contains(cause.Message, undecodableObject) && !isNested(errors.New(cause.Message)) {
		return false
	}
	s.enabled.Store(true)
	return true
}
