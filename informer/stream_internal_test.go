package informer

import (
	"context"
	"io"
	"net/http"
	"reflect"
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

	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// A wired server answers every request with what is written to it, in protobuf.
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

// secondNode runs an informer, makes the cache's state another one than was
// sent, sends an update, and returns where that has its spec from.
func secondNode(t *testing.T, o *Options, update *corev1.Pod) string {
	t.Helper()
	var node string
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newWired()
		clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: server, QPS: -1})
		g.Expect(err).NotTo(HaveOccurred())
		o.Mutations = Never
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
		it := *pods.newest.get(key)
		it.object = podOn("cached", "5", "Pending")
		pods.newest.put(&it)

		server.send(watch.Modified, update)
		g.Expect(pods.WaitFor(ctx, update.ResourceVersion)).To(Succeed())
		got, _ := pods.Get(key)
		g.Expect(got.Status).To(Equal(update.Status))
		node = got.Spec.NodeName
		server.send(watch.Deleted, podOn("sent", "99", "Running"))
		g.Expect(pods.WaitFor(ctx, "99")).To(Succeed())
		g.Expect(pods.session.watches[0].specs.pending()).To(BeZero(), "fingerprints of objects that nobody holds")
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

func (s *specs[T]) pending() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.decoded)
}

// The sharing writes to an object that comes. What it has from a state that is
// not the cache's any more may be read by who holds that.
func TestTheSpecOfAStateThatWasReplacedIsCopied(t *testing.T) {
	g := NewWithT(t)
	pods := For(fake.NewClientset().CoreV1().Pods(""), &Options{Mutations: Never})
	r := &reflection[*corev1.Pod]{informer: pods}
	r.specs = &specs[*corev1.Pod]{informer: pods, decoded: map[wire.Object]spec{}}
	state := func() *corev1.Pod {
		p := podOn("n", "5", "Pending")
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		return p
	}
	was, is := state(), state()
	for _, c := range []struct {
		cached *corev1.Pod
		copied bool
	}{{was, false}, {is, true}, {nil, true}} {
		pods.newest.clear()
		if c.cached != nil {
			pods.newest.put(itemOf(c.cached))
		}
		update := podOn("", "6", "Running")
		update.Spec = was.Spec
		r.specs.Decoded(update, 7, was)
		owned := r.unshared(update)
		g.Expect(owned.Spec).To(Equal(was.Spec))
		g.Expect(owned.Status.Phase).To(Equal(corev1.PodRunning))
		same := BeIdenticalTo(&was.Spec.Containers[0])
		if c.copied {
			same = Not(same)
		}
		g.Expect(&owned.Spec.Containers[0]).To(same)
		g.Expect(r.item(owned).spec).To(Equal(wire.Fingerprint(7)))
		g.Expect(r.specs.pending()).To(BeZero())
	}
}

// Methods of a quantity write to it when they read it: readers of two states of
// an object must not meet there.
func TestASpecThatReadersWriteToIsDecodedAgain(t *testing.T) {
	g := NewWithT(t)
	pods := For(fake.NewClientset().CoreV1().Pods(""), &Options{Mutations: Never})
	r := &reflection[*corev1.Pod]{informer: pods}
	r.specs = &specs[*corev1.Pod]{informer: pods, decoded: map[wire.Object]spec{}}
	for _, limit := range []*resource.Quantity{nil, resource.NewQuantity(1, resource.BinarySI)} {
		p := podOn("n", "5", "Pending")
		p.Spec.Volumes = []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}},
		}}
		r.specs.Decoded(p, 7, nil)
		pods.newest.put(r.item(p))
		_, known := r.specs.Known(podOn("", "6", ""))
		g.Expect(known == 0).To(Equal(limit != nil))
	}
}

func TestAListLeavesNoRoomBehind(t *testing.T) {
	g := NewWithT(t)
	s := &specs[*corev1.Pod]{decoded: map[wire.Object]spec{}}
	small := reflect.ValueOf(s.decoded).Pointer()
	one := podOn("n", "1", "")
	s.Decoded(one, 7, nil)
	g.Expect(s.take(one).sum).To(Equal(wire.Fingerprint(7)))
	g.Expect(reflect.ValueOf(s.decoded).Pointer()).To(Equal(small), "a map for each event")

	var all []*corev1.Pod
	for range 2 * manySpecs {
		p := podOn("n", "1", "")
		all = append(all, p)
		s.Decoded(p, 7, nil)
	}
	for _, p := range all {
		g.Expect(s.take(p).sum).To(Equal(wire.Fingerprint(7)))
	}
	g.Expect(reflect.ValueOf(s.decoded).Pointer()).NotTo(Equal(small))
}

// A recorder notes requests, and answers with err or an empty watch.
type recorder struct {
	requests []string
	err      error
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	r.requests = append(r.requests, q.Method+" "+q.URL.String()+" "+q.Header.Get("Accept"))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: q}, r.err
}

func TestRequestsAreThoseOfTheClient(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sent := &recorder{}
	slow := &rest.Config{Host: "http://wired", Transport: sent, QPS: 1e-6, Burst: 1}
	clientset, err := kubernetes.NewForConfig(slow)
	g.Expect(err).NotTo(HaveOccurred())
	inJSON := rest.CopyConfig(slow)
	inJSON.ContentType = runtime.ContentTypeJSON
	texts, err := kubernetes.NewForConfig(inJSON)
	g.Expect(err).NotTo(HaveOccurred())
	all := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "metadata.name=c", ResourceVersion: "7", AllowWatchBookmarks: true,
		TimeoutSeconds: new(int64(300)), SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	for _, client := range []interface {
		Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	}{
		clientset.CoreV1().Pods("d"), clientset.CoreV1().Pods(""), clientset.CoreV1().Nodes(),
		clientset.AppsV1().Deployments("d"), texts.CoreV1().Nodes(),
	} {
		for _, opts := range []metav1.ListOptions{{}, all} {
			sent.requests = nil
			w, err := client.Watch(ctx, opts)
			g.Expect(err).NotTo(HaveOccurred())
			w.Stop()
			body, err := streamOf(client)(ctx, opts)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(body.Close()).To(Succeed())
			g.Expect(sent.requests).To(HaveLen(2))
			g.Expect(sent.requests[1]).To(Equal(sent.requests[0]))
		}
	}
}

func TestAConnectionThatEndsAtOnceIsAnEmptyWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired", Transport: &recorder{err: io.EOF}})
		g.Expect(err).NotTo(HaveOccurred())
		pods := For(clientset.CoreV1().Pods(""), nil)
		w, err := (&reflection[*corev1.Pod]{informer: pods, source: pods.sources[0]}).open(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, open := <-w.ResultChan()
		g.Expect(open).To(BeFalse())
	})
}

// around is what people put around a client: it may do more than that does.
type around struct{ typedcorev1.PodInterface }

// within has all that a generated client has.
type within struct{ *gentype.Client[*corev1.Pod] }

func TestOnlyClientsOfClientGoArePassedBy(t *testing.T) {
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
		g.Expect(streamOf(client)).NotTo(BeNil(), "%T", client)
	}
	for _, client := range []any{
		&within{gentype.NewClient("pods", clientset.CoreV1().RESTClient(), metav1.ParameterCodec, "d",
			func() *corev1.Pod { return &corev1.Pod{} })},
		around{clientset.CoreV1().Pods("d")},
		&around{clientset.CoreV1().Pods("d")}, fake.NewClientset().CoreV1().Pods("d"),
		Untyped(untyped.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})), (*around)(nil), nil,
	} {
		g.Expect(streamOf(client)).To(BeNil(), "%T", client)
	}
}
