package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/bound"
)

// itemwise sends the lists and watches of a client, but decodes their objects
// one by one. So an object that Go cannot decode does not affect the others.
//
// It is always used for clients of package cluster. For other clients it is
// used after the first error of decoding, because they may do more than send a
// request.
type itemwise struct {
	client              rest.Interface
	resource, namespace string
	metadataOnly        bool
	protobuf            bool // the client decodes protobuf, which cannot fail for one object
	// lists and watches are true if these methods of the client only send the
	// request.
	lists, watches atomic.Bool
	// on is true when all requests are sent by itemwise.
	on atomic.Bool
}

// clusterClients is the package whose clients are read object by object from
// the start.
const clusterClients = "github.com/homeostat/homeostat/cluster"

// itemwiseOf returns how to read object by object what a client reads. It
// returns nil if that is not known: for fakes, and for clients that hide how
// they send their requests.
func itemwiseOf[T Object](client any, resource schema.GroupVersionResource) *itemwise {
	_, ok := stubOf[T](metav1.ObjectMeta{}, &refusal{causeDecode, errNoClient})
	if !ok || resource.Resource == "" || isFake(client) {
		return nil
	}
	inner, through := senderOf(client)
	if through == nil || through.Client == nil {
		return nil
	}
	i := &itemwise{resource: resource.Resource, metadataOnly: reflect.TypeFor[T]() == metadataType}
	_, i.protobuf = example[T]().(interface{ Unmarshal(data []byte) error })
	at := through.Get().URL()
	if _, ok := inner.(requester); ok {
		i.namespace, _ = bound.NamespaceOf(inner)
	} else {
		at = through.Get().AbsPath(pathOf(resource.GroupVersion())).URL()
		i.namespace = namespaceField(inner)
	}
	made, err := rest.NewRESTClient(at, "", rest.ClientContentConfig{
		ContentType: k8sruntime.ContentTypeJSON, GroupVersion: resource.GroupVersion(),
		Negotiator: newObjectDecoder[T](resource.GroupVersion()),
	}, through.GetRateLimiter(), through.Client)
	if err != nil {
		return nil
	}
	i.client = made
	from := packageOf(unwrapped(client))
	i.on.Store(from == clusterClients)
	known := from == clusterClients || strings.HasPrefix(from, "k8s.io/client-go/")
	i.lists.Store(known)
	i.watches.Store(known)
	return i
}

//nolint:gochecknoglobals // a type
var metadataType = reflect.TypeFor[*metav1.PartialObjectMetadata]()

func pathOf(v schema.GroupVersion) string {
	if v.Group == "" {
		return "/api/" + v.Version
	}
	return "/apis/" + v.Group + "/" + v.Version
}

// senderOf returns the client, or the one inside of it, that shows how it sends
// its requests.
func senderOf(client any) (inner any, through *rest.RESTClient) {
	inner = unwrapped(client)
	const deepest = 6 // types that embed one another
	for range deepest {
		if bound.IsNil(inner) {
			return nil, nil
		}
		if c, ok := inner.(requester); ok {
			through, _ = c.GetClient().(*rest.RESTClient)
			return inner, through
		}
		switch packageOf(inner) {
		case "k8s.io/client-go/metadata", "k8s.io/client-go/dynamic":
			return inner, restClientIn(inner)
		}
		inner = embeddedIn(reflect.Indirect(reflect.ValueOf(inner)))
	}
	return nil, nil
}

// isOn reports whether i sends all requests.
func (i *itemwise) isOn() bool { return i != nil && i.on.Load() }

// list sends a request for a list, or for a page of one.
func (i *itemwise) list(ctx context.Context, opts metav1.ListOptions) (k8sruntime.Object, error) {
	return i.request(&opts, "PartialObjectMetadataList").Do(ctx).Get()
}

// watch opens a watch.
func (i *itemwise) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	return i.request(&opts, "PartialObjectMetadata").Watch(ctx)
}

func (i *itemwise) request(opts *metav1.ListOptions, as string) *rest.Request {
	r := i.client.Get().NamespaceIfScoped(i.namespace, i.namespace != "").Resource(i.resource).
		VersionedParams(opts, metav1.ParameterCodec)
	if i.metadataOnly {
		r.SetHeader("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1,application/json")
	}
	if opts.TimeoutSeconds != nil {
		r.Timeout(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	return r
}

// reading returns a source with the list and watch functions of i, which take
// over once an object cannot be decoded. A nil i never takes over.
func (i *itemwise) reading(of source) source {
	list, open := of.list, of.watch
	of.list = func(ctx context.Context, opts metav1.ListOptions) (k8sruntime.Object, error) {
		if i.isOn() {
			return i.list(ctx, opts)
		}
		asked := &askedBy{Context: ctx}
		all, err := list(asked, opts)
		switch {
		case !isUndecodable(ctx, err):
			return all, err
		case i != nil && asked.isDirect(&i.lists):
		case of.fake, i == nil && !soundsUndecodable(err):
			return all, err
		default:
			return all, fmt.Errorf("%w (if an object cannot be decoded, it cannot be left out: %s does not show with what "+
				"it sends its requests, or does more than that)", err, of.client)
		}
		deep := isNested(err)
		all, err = i.list(ctx, opts)
		if list, ok := all.(*objectList); ok && (deep || slices.ContainsFunc(list.Items, isStub)) && i.watches.Load() {
			i.on.Store(true)
		}
		return all, err
	}
	of.watch = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		if i.isOn() {
			return i.watch(ctx, opts)
		}
		asked := &askedBy{Context: ctx}
		w, err := open(asked, opts)
		if i == nil || !asked.isDirect(&i.watches) || err != nil || !i.lists.Load() || i.protobuf || isEmptyWatch(w) {
			return w, err
		}
		return newEndable(w, i.endsUndecodable), nil
	}
	return of
}

// askedBy is a context that records which functions are on the stack when it is
// first used.
type askedBy struct {
	context.Context //nolint:containedctx // it is one

	once    sync.Once
	callers []uintptr
}

// Done implements [context.Context].
func (a *askedBy) Done() <-chan struct{} {
	a.note()
	return a.Context.Done()
}

// Value implements [context.Context].
func (a *askedBy) Value(key any) any {
	a.note()
	return a.Context.Value(key)
}

func (a *askedBy) note() {
	a.once.Do(func() {
		const most = 64
		a.callers = make([]uintptr, most)
		a.callers = a.callers[:runtime.Callers(3, a.callers)]
	})
}

// isDirect reports whether a client of package gentype, called directly by a
// source, was the first to use the context. The result is stored in known. A
// type that embeds such a client and has a method of its own is not direct,
// because it is not known what else that method does.
func (a *askedBy) isDirect(known *atomic.Bool) bool {
	if known.Load() || len(a.callers) == 0 {
		return known.Load()
	}
	const client, own = "k8s.io/client-go/gentype.", "github.com/homeostat/homeostat/informer."
	frames := runtime.CallersFrames(a.callers)
	byClient := false
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		switch {
		case strings.HasPrefix(frame.Function, client):
			byClient = true
		case strings.HasPrefix(frame.Function, own+"(*askedBy)"):
		case byClient, strings.HasPrefix(frame.Function, own): // the caller of the client, or of something else
			known.Store(byClient && strings.HasPrefix(frame.Function, own))
			return known.Load()
		}
	}
	return false
}

// isUndecodable reports whether a request has failed because its answer cannot
// be decoded, as far as the error shows: the server has answered, and not with
// an error.
func isUndecodable(ctx context.Context, err error) bool {
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
		func(of error) bool { return errors.Is(err, of) })
}

// soundsUndecodable reports whether the text of an error, which may be that of
// any client, is about decoding.
func soundsUndecodable(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{
		"json:", "unmarshal", "decod", "parsing time", "time: ", "quantities must match",
	}, func(word string) bool { return strings.Contains(text, word) })
}

// clientWatchDecoding is the cause of client-go's error about an event that it
// cannot decode. undecodableObject is in its text if the reason is the object.
const (
	clientWatchDecoding = metav1.CauseType("ClientWatchDecoding")
	undecodableObject   = "unable to decode watch event"
)

// endsUndecodable reports whether an event is the error of an object that
// client-go cannot decode. It then turns i on. The watch ends without an error,
// and the next one starts at the same place; after an error, a reflector would
// list all objects again.
func (i *itemwise) endsUndecodable(event watch.Event) bool {
	if event.Type != watch.Error {
		return false
	}
	cause, ok := apierrors.StatusCause(apierrors.FromObject(event.Object), clientWatchDecoding)
	if !ok || !strings.Contains(cause.Message, undecodableObject) && !isNested(errors.New(cause.Message)) {
		return false
	}
	i.on.Store(true)
	return true
}
