package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// A wired server answers every request in protobuf, with the events that the
// test writes.
type wired struct {
	*io.PipeReader
	to *io.PipeWriter
}

func newWired() *wired {
	r, w := io.Pipe()
	return &wired{r, w}
}

func (w *wired) RoundTrip(r *http.Request) (*http.Response, error) {
	context.AfterFunc(r.Context(), func() { w.to.CloseWithError(r.Context().Err()) })
	header := http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf;stream=watch"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: w, Request: r}, nil
}

func (w *wired) send(t watch.EventType, o runtime.Object) {
	_, _ = w.to.Write(wiretest.Bytes(runtime.ContentTypeProtobuf, watch.Event{Type: t, Object: o}))
}

func podOn(node, version, phase string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", ResourceVersion: version},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodPhase(phase)},
	}
}

// secondNode runs an informer, replaces the cached state by a different one,
// sends an update, and returns from which state the update has its spec.
func secondNode(t *testing.T, o *Options, update *corev1.Pod) string {
	t.Helper()
	var node string
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newWired()
		clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: server, QPS: -1})
		g.Expect(err).NotTo(HaveOccurred())
		o.MutationCheck = checkNever
		pods := For(clientset.CoreV1().Pods(""), o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pods.Run(ctx) }()
		server.send(watch.Added, podOn("sent", "5", "Pending"))
		server.send(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
		g.Expect(pods.WaitForSync(ctx)).To(Succeed())
		key := types.NamespacedName{Namespace: "d", Name: "a"}
		it := *pods.store.table.Get(key)
		it.Object = podOn("cached", "5", "Pending")
		pods.store.table.Put(&it)

		server.send(watch.Modified, update)
		g.Expect(pods.WaitFor(ctx, update.ResourceVersion)).To(Succeed())
		got, _ := pods.Get(key)
		g.Expect(got.Status).To(Equal(update.Status))
		node = got.Spec.NodeName
		server.send(watch.Deleted, podOn("sent", "99", "Running"))
		g.Expect(pods.WaitFor(ctx, "99")).To(Succeed())
		g.Expect(pods.feed.session.watches[0].streamed).To(BeNil(), "fingerprints of objects that are not held")
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	return node
}

func TestAnUpdateHasTheSpecOfTheCacheIfItIsTheSame(t *testing.T) {
	g := NewWithT(t)
	g.Expect(secondNode(t, &Options{}, podOn("sent", "11", "Running"))).To(Equal("cached"))
	g.Expect(secondNode(t, &Options{}, podOn("moved", "11", "Running"))).To(Equal("moved"))
}

func TestASpecThatMayBeEditedIsDecoded(t *testing.T) {
	g := NewWithT(t)
	edited := &Options{Transform: func(Object) {}}
	for _, o := range []*Options{edited, {NoSharing: true}} {
		g.Expect(secondNode(t, o, podOn("sent", "11", "Running"))).To(Equal("sent"))
	}
}

// Sharing writes to a received object. If the object has its spec from a state
// that is no longer cached, other goroutines may be reading that spec.
func TestTheSpecOfAStateThatWasReplacedIsCopied(t *testing.T) {
	kind, _ := wire.KindOf(reflect.TypeFor[*corev1.Pod]())
	state := func(phase string) *corev1.Pod {
		p := podOn("n", "5", phase)
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		return p
	}
	was, is := state("Pending"), state("Pending")
	for _, c := range []struct {
		cached *corev1.Pod // when the update is stored
		known  bool        // the fingerprint of its spec is
		from   *corev1.Pod // nil if the spec is copied
	}{{was, true, was}, {is, false, nil}, {is, true, is}, {nil, false, nil}} {
		g := NewWithT(t)
		pods := For(fake.NewClientset().CoreV1().Pods(""), &Options{MutationCheck: checkNever})
		r := newReflectorStore(&pods.feed.sink, pods.feed.sources[0], klog.Background())
		// An update comes while the cache has the state was, whose spec it has,
		// too.
		known := wire.State{}
		r.specs.specs = wire.NewSpecs(kind, func(types.NamespacedName) wire.State { return known })
		stored, err := r.prepare(received(t, r.specs.specs, was))
		g.Expect(err).NotTo(HaveOccurred())
		known = wire.State{Object: was, Spec: stored.Spec}
		update := received(t, r.specs.specs, state("Running"))
		g.Expect(update.Spec).To(Equal(corev1.PodSpec{}), "a placeholder")
		if c.cached != nil {
			it := itemOf(c.cached)
			if c.known {
				it.Spec = stored.Spec
			}
			pods.store.table.Put(it)
		}
		object, sum, err := r.specs.take(update) // before it is shared
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sum).To(Equal(stored.Spec))
		g.Expect(object).To(Equal(state("Running")))
		for _, state := range []*corev1.Pod{was, is} {
			same := &object.Spec.Containers[0] == &state.Spec.Containers[0]
			g.Expect(same).To(Equal(state == c.from))
		}
	}
}

// Methods of a quantity write to it when they read it: readers of two states of
// an object must not meet there.
func TestASpecThatReadersWriteToIsDecodedAgain(t *testing.T) {
	g := NewWithT(t)
	kind, _ := wire.KindOf(reflect.TypeFor[*corev1.Pod]())
	pods := For(fake.NewClientset().CoreV1().Pods(""), &Options{MutationCheck: checkNever})
	r := newReflectorStore(&pods.feed.sink, pods.feed.sources[0], klog.Background())
	r.specs.specs = wire.NewSpecs(kind, func(types.NamespacedName) wire.State { return wire.State{} })
	for _, limit := range []*resource.Quantity{nil, resource.NewQuantity(1, resource.BinarySI)} {
		p := podOn("n", "5", "Pending")
		p.Spec.Volumes = []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}},
		}}
		it, err := r.prepare(received(t, r.specs.specs, p))
		g.Expect(err).NotTo(HaveOccurred())
		unknown := Equal(wire.Fingerprint{})
		if limit == nil {
			unknown = Not(unknown)
		}
		g.Expect(it.Spec).To(unknown)
	}
}

// received returns the Pod that client-go's watch decodes when a server sends a
// Pod.
func received(t *testing.T, specs *wire.Specs, sent *corev1.Pod) *corev1.Pod {
	t.Helper()
	g := NewWithT(t)
	server := answer(http.StatusOK, runtime.ContentTypeProtobuf,
		wiretest.Bytes(runtime.ContentTypeProtobuf, watch.Event{Type: watch.Modified, Object: sent}))
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: server})
	g.Expect(err).NotTo(HaveOccurred())
	through, why := specs.Client(clientset.CoreV1().RESTClient(), nil)
	g.Expect(why).To(BeEmpty())
	w, err := typedcorev1.New(through).Pods("").Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	return (<-w.ResultChan()).Object.(*corev1.Pod)
}

// A tripper answers requests.
type tripper func(r *http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// answer answers all requests with a body that ends.
func answer(code int, mediaType string, body []byte) tripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {mediaType}}, Request: r,
			Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	}
}

// watchers returns the generated clients of all kinds of a clientset.
func watchers(clientset any) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	v := reflect.ValueOf(clientset)
	for group := range v.Type().Methods() {
		if group.Type.NumIn() != 1 || group.Type.NumOut() != 1 || group.Name == "Discovery" {
			continue
		}
		api := v.MethodByName(group.Name).Call(nil)[0]
		for kind := range api.Type().Methods() {
			f := api.MethodByName(kind.Name)
			var in []reflect.Value
			if f.Type().NumIn() == 1 {
				in = append(in, reflect.ValueOf("d"))
			}
			if f.Type().NumOut() != 1 || f.Type().Out(0).Kind() != reflect.Interface || kind.Name == "RESTClient" {
				continue
			}
			if client := f.Call(in)[0].Elem(); client.MethodByName("Watch").IsValid() {
				all[group.Name+" "+kind.Name] = client
			}
		}
	}
	return all
}

// For every kind, the requests are the same as the client's own: they have the
// same resource and accept the same media types.
func TestRequestsEqualTheRequestsOfTheClient(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	server := tripper(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, fmt.Sprint(r.Method, r.URL, r.Header))
		return nil, errors.New("enough")
	})
	opts := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "metadata.name=c", ResourceVersion: "7", AllowWatchBookmarks: true,
		TimeoutSeconds: new(int64(300)), SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	const kinds = 40
	for _, contentType := range []string{"", runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := &rest.Config{Host: "http://wired/under", Transport: server, UserAgent: "me", QPS: 1e-6, Burst: 1}
		config.ContentType = contentType
		clientset, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		compared := 0
		for name, client := range watchers(clientset) {
			kind := client.MethodByName("Get").Type().Out(0)
			if _, ok := wire.KindOf(kind); !ok {
				continue
			}
			compared++
			asked = nil
			theirs := client.Interface().(interface {
				GetClient() rest.Interface
				GetNamespace() string
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // against throttling
			in := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(opts)}
			watchErr, _ := reflect.TypeAssert[error](client.MethodByName("Watch").Call(in)[1])
			g.Expect(watchErr).To(MatchError(errEnough))
			through, why := (&wire.Specs{}).Client(theirs.GetClient(), nil)
			g.Expect(why).To(BeEmpty())
			resource := clients.ResourceOf(client.Interface())
			_, err := clientOf[*corev1.Pod](through, resource.Resource, theirs.GetNamespace()).Watch(ctx, opts)
			g.Expect(err).To(MatchError(errEnough))
			cancel()
			g.Expect(asked).To(HaveLen(2), name)
			g.Expect(asked[1]).To(Equal(asked[0]), name)
		}
		g.Expect(compared).To(BeNumerically(">", kinds))
	}
}

var errEnough = errors.New("enough")

// A silent body delivers nothing until it ends.
type silent struct {
	ctx   context.Context //nolint:containedctx // of the request
	ended <-chan time.Time
}

func (s *silent) Read([]byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-s.ended:
		return 0, io.EOF
	}
}

// cutWatch runs an informer whose streaming list ends, and whose server then
// cannot be reached for a while. It returns the requests until the next event.
func cutWatch(t *testing.T, err error) (asked []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var mu sync.Mutex
		began := time.Now()
		server := tripper(func(r *http.Request) (*http.Response, error) {
			what := r.URL.Query().Get("resourceVersion")
			if r.URL.Query().Get("sendInitialEvents") != "" {
				what = "stream " + what
			} else if r.URL.Query().Get("watch") == "" {
				what = "list " + what
			}
			mu.Lock()
			defer mu.Unlock()
			events := []watch.Event{
				{Type: watch.Added, Object: podOn("n", "5", "Pending")},
				{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}}},
			}
			if len(asked) > 0 {
				if time.Since(began) < 20*time.Second {
					return nil, err
				}
				events = []watch.Event{{Type: watch.Modified, Object: podOn("n", "11", "Running")}}
			}
			asked = append(asked, strings.TrimSpace(what))
			answered, err := answer(http.StatusOK, runtime.ContentTypeProtobuf,
				wiretest.Bytes(runtime.ContentTypeProtobuf, events...)).RoundTrip(r)
			ctx, lasts := r.Context(), 5*time.Second
			if len(asked) > 1 {
				lasts = time.Hour
			}
			answered.Body = io.NopCloser(io.MultiReader(answered.Body, &silent{ctx, time.After(lasts)}))
			return answered, err
		})
		clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: server, QPS: -1})
		g.Expect(err).NotTo(HaveOccurred())
		pods := For(clientset.CoreV1().Pods(""), &Options{MutationCheck: checkNever})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pods.Run(ctx) }()
		limit, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		g.Expect(pods.WaitFor(limit, "11")).To(Succeed())
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	return asked
}

// As with client-go's own watch, a server that was down for a while is asked
// for the changes only, and not for a list.
func TestAWatchThatWasCutCostsNoList(t *testing.T) {
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		context.DeadlineExceeded,
	} {
		asked := cutWatch(t, err)
		NewWithT(t).Expect(asked[:2]).To(Equal([]string{"stream", "10"}), err.Error())
	}
}

// around is a type that embeds a client, as programs have them. It may do more
// than the client does.
type around struct{ typedcorev1.PodInterface }

// within embeds a generated client, and so has all of its fields and methods.
type within struct{ *gentype.Client[*corev1.Pod] }

func TestOnlyClientsOfClientGoAreKnown(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "http://wired"}
	clientset, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	untyped, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	for _, client := range []any{
		clientset.CoreV1().Pods("d"), clientset.CoreV1().Nodes(), clientset.AppsV1().Deployments(""),
		clientset.NetworkingV1().Ingresses(""),
	} {
		g.Expect(clients.GeneratedOf(client)).NotTo(BeNil(), "%T", client)
		g.Expect(clients.ReturnsShared(client)).To(BeFalse(), "%T", client)
	}
	for _, client := range []any{
		&within{gentype.NewClient("pods", clientset.CoreV1().RESTClient(), metav1.ParameterCodec, "d",
			func() *corev1.Pod { return &corev1.Pod{} })},
		around{clientset.CoreV1().Pods("d")},
		&around{clientset.CoreV1().Pods("d")}, fake.NewClientset().CoreV1().Pods("d"),
		Untyped(untyped.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})), (*around)(nil), nil,
	} {
		g.Expect(clients.GeneratedOf(client)).To(BeNil(), "%T", client)
	}
	for _, client := range []any{around{clientset.CoreV1().Pods("d")}, fake.NewClientset().CoreV1().Pods("d")} {
		g.Expect(clients.ReturnsShared(client)).To(BeTrue(), "%T", client)
	}
}

// opened opens watches of server, one after the other. It returns
// Status.FullDecode and the requests.
func opened(
	t *testing.T, o *Options, client func(*kubernetes.Clientset) typedcorev1.PodInterface, times int, server tripper,
) (why string, asked []string, err error) {
	t.Helper()
	noted := tripper(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Path)
		return server(r)
	})
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: noted, QPS: -1})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pods := For(client(clientset), o)
	r := newReflectorStore(&pods.feed.sink, pods.feed.sources[0], klog.Background())
	pods.feed.session = &session[*corev1.Pod]{watches: []*reflectorStore[*corev1.Pod]{r}}
	for range times {
		var w watch.Interface
		if w, err = r.specs.open(t.Context(), metav1.ListOptions{}); err == nil {
			for range w.ResultChan() { // to its end
			}
		}
	}
	return pods.Status().FullDecode, asked, err
}

// Unknown answers are decoded by the client's own watch, and Status says so.
func TestStatusSaysWhySpecsAreDecoded(t *testing.T) {
	of := func(c *kubernetes.Clientset) typedcorev1.PodInterface { return c.CoreV1().Pods("d") }
	wrapped := func(c *kubernetes.Clientset) typedcorev1.PodInterface { return around{of(c)} }
	empty := answer(http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch", nil)
	const path = "/api/v1/namespaces/d/pods"
	for why, c := range map[string]struct {
		options *Options
		client  func(*kubernetes.Clientset) typedcorev1.PodInterface
		server  tripper
	}{
		"":                                       {nil, of, empty},
		"Options.NoSharing":                      {&Options{NoSharing: true}, of, empty},
		"Options.Transform":                      {&Options{Transform: func(Object) {}}, of, empty},
		`the server sends "application/json"`:    {nil, of, answer(http.StatusOK, "application/json", nil)},
		`the server sends "application/unheard"`: {nil, of, answer(http.StatusOK, "application/unheard", nil)},
		"informer.around is not a client of client-go for a built-in kind": {nil, wrapped, empty},
	} {
		g := NewWithT(t)
		got, asked, err := opened(t, c.options, c.client, 2, c.server)
		g.Expect(got).To(Equal(why))
		g.Expect(asked).To(Equal([]string{path, path}))
		if why != `the server sends "application/unheard"` {
			g.Expect(err).NotTo(HaveOccurred())
		} else {
			g.Expect(err).To(MatchError("no stream serializers registered for application/unheard"))
		}
	}
}

// Requests of a resource that is not known are the client's own.
func TestSpecsOfAnUnknownResourceAreDecoded(t *testing.T) {
	g := NewWithT(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired"})
	g.Expect(err).NotTo(HaveOccurred())
	pods := For(clientset.CoreV1().Pods("d"), nil)
	pods.feed.sources[0].resource = schema.GroupVersionResource{}
	r := newReflectorStore(&pods.feed.sink, pods.feed.sources[0], klog.Background())
	_, _, why := r.specs.connect()
	g.Expect(why).To(HaveSuffix(" does not show which resource it reads"))
}
