package clientgo_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// stream is an API server that sends what is written to it to the watch that
// was opened last.
type stream struct{ to *io.PipeWriter }

// RoundTrip implements [http.RoundTripper].
func (s *stream) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
	s.to = to
	header := http.Header{"Content-Type": {runtime.ContentTypeProtobuf + ";stream=watch"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: from, Request: r}, nil
}

func (s *stream) send(t watch.EventType, o runtime.Object) {
	_, _ = s.to.Write(wiretest.Bytes(runtime.ContentTypeProtobuf, watch.Event{Type: t, Object: o}))
	synctest.Wait()
}

// endList sends the bookmark that ends a streaming list.
func (s *stream) endList() {
	s.send(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

// client returns a client of the server. wrap may be nil.
func (s *stream) client(wrap func(http.RoundTripper) http.RoundTripper) kubernetes.Interface {
	config := &rest.Config{Host: "http://stream", Transport: s, QPS: -1}
	if wrap != nil {
		config.Wrap(wrap)
	}
	return kubernetes.NewForConfigOrDie(config)
}

func podOn(node, version string, phase corev1.PodPhase) *corev1.Pod {
	p := namedPod("a")
	p.UID, p.ResourceVersion, p.Spec.NodeName, p.Status.Phase = "1", version, node, phase
	return p
}

// nodeAfterUpdate modifies a cached Pod in place, sends an update with the spec
// that it had before, and returns the node in the new state. The node is
// "edited" only if the spec was not decoded.
func nodeAfterUpdate(t *testing.T, s *stream, lw cache.ListerWatcher, transform cache.TransformFunc) (node, why string) {
	t.Helper()
	g := NewWithT(t)
	var by clientgo.Informers
	shared := newKnown(&by, lw)
	if transform != nil {
		g.Expect(shared.SetTransform(transform)).To(Succeed())
	}
	start(t, shared)
	s.send(watch.Added, podOn("sent", "5", corev1.PodPending))
	s.endList()
	s.send(watch.Modified, podOn("sent", "10", corev1.PodPending)) // its bytes are the first that were seen
	cached := func() *corev1.Pod {
		g.Expect(shared.GetStore().List()).To(HaveLen(1))
		return shared.GetStore().List()[0].(*corev1.Pod)
	}
	cached().Spec.NodeName = "edited"
	s.send(watch.Modified, podOn("sent", "11", corev1.PodRunning))
	g.Expect(cached().ResourceVersion).To(Equal("11"))
	g.Expect(cached().Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(cached().SelfLink).To(BeEmpty()) //nolint:staticcheck // it marks placeholders
	node, why = cached().Spec.NodeName, by.Status()[0].FullDecode

	s.send(watch.Modified, podOn("moved", "12", corev1.PodRunning))
	g.Expect(cached().Spec.NodeName).To(Equal("moved"))
	return node, why
}

func TestAnUnchangedSpecIsNotDecodedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := &stream{}
		node, why := nodeAfterUpdate(t, s, podsOf(s.client(clientgo.ReuseSpecs)), nil)
		g.Expect(node).To(Equal("edited"))
		g.Expect(why).To(BeEmpty())
	})
}

func TestASpecIsReusedWithoutManagedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := &stream{}
		node, why := nodeAfterUpdate(t, s, podsOf(s.client(clientgo.ReuseSpecs)), clientgo.DropManagedFields)
		g.Expect(node).To(Equal("edited"))
		g.Expect(why).To(BeEmpty())
	})
}

func TestManagedFieldsAreDroppedFromWhatHasThem(t *testing.T) {
	g := NewWithT(t)
	managed := []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	for _, c := range []struct{ given, want any }{
		{
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: managed}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		},
		{
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: managed}},
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		},
		{cache.DeletedFinalStateUnknown{Key: "a"}, cache.DeletedFinalStateUnknown{Key: "a"}},
		{nil, nil},
	} {
		obj, err := clientgo.DropManagedFields(c.given)
		g.Expect(err).NotTo(HaveOccurred())
		if c.want == nil {
			g.Expect(obj).To(BeNil())
			continue
		}
		g.Expect(obj).To(Equal(c.want))
	}
}

// A ListerWatcher may do more than pass on what the client returns.
func TestASpecThatOtherCodeMayReadIsDecoded(t *testing.T) {
	// through returns a ListerWatcher whose watches are edited.
	through := func(client kubernetes.Interface, edit func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error),
	) cache.ListerWatcher {
		return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, io.EOF },
			WatchFuncWithContext: edit,
		}, client)
	}
	same := func(obj any) (any, error) { return obj, nil }
	for _, c := range []struct {
		name      string
		source    func(s *stream) cache.ListerWatcher
		transform cache.TransformFunc
		why       string
	}{
		{
			"a transport that is not wrapped", func(s *stream) cache.ListerWatcher { return podsOf(s.client(nil)) }, nil,
			"no transport wrapped with clientgo.ReuseSpecs has sent the request of the watch",
		},
		{
			"a transform function", func(s *stream) cache.ListerWatcher { return podsOf(s.client(clientgo.ReuseSpecs)) }, same,
			"the transform function",
		},
		{"a filter", func(s *stream) cache.ListerWatcher {
			client := s.client(clientgo.ReuseSpecs)
			return through(client, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := client.CoreV1().Pods("").Watch(ctx, o)
				return watch.Filter(w, func(in watch.Event) (watch.Event, bool) {
					p, ok := in.Object.(*corev1.Pod) // the error at the end would find no reader
					return in, ok && (in.Type == watch.Bookmark || p.Spec.NodeName != "")
				}), err
			})
		}, nil, "the ListerWatcher returns a *watch.filteredWatch, which may need whole objects"},
		{"two watches", func(s *stream) cache.ListerWatcher {
			client := s.client(clientgo.ReuseSpecs)
			return through(client, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				first, err := client.CoreV1().Pods("").Watch(ctx, o)
				if err != nil {
					return nil, err
				}
				first.Stop()
				return client.CoreV1().Pods("").Watch(ctx, o)
			})
		}, nil, "the ListerWatcher opens several watches at once"},
		{"a decoder of its own", func(s *stream) cache.ListerWatcher {
			config := &rest.Config{Host: "http://stream", Transport: s, QPS: -1, APIPath: "/api"}
			config.GroupVersion = &corev1.SchemeGroupVersion
			config.AcceptContentTypes = runtime.ContentTypeProtobuf
			config.NegotiatedSerializer = passing{scheme.Codecs.WithoutConversion()}
			config.Wrap(clientgo.ReuseSpecs)
			client, err := rest.RESTClientFor(config)
			if err != nil {
				panic(err)
			}
			return cache.NewListWatchFromClient(client, "pods", "", fields.Everything())
		}, nil, "the client decodes objects with a clientgo_test.decoder, which may need whole objects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				s := &stream{}
				node, why := nodeAfterUpdate(t, s, c.source(s), c.transform)
				g.Expect(node).To(Equal("sent"))
				g.Expect(why).To(Equal(c.why))
			})
		})
	}
}

// passing is a serializer whose decoder could set defaults.
type passing struct{ runtime.NegotiatedSerializer }

func (p passing) DecoderToVersion(inner runtime.Decoder, v runtime.GroupVersioner) runtime.Decoder {
	return decoder{p.NegotiatedSerializer.DecoderToVersion(inner, v)}
}

type decoder struct{ runtime.Decoder }

// history records the states that a handler has got.
type history []any

func (h *history) OnAdd(obj any, _ bool) { *h = append(*h, "add", copied(obj)) }
func (h *history) OnUpdate(old, obj any) { *h = append(*h, "update", copied(old), copied(obj)) }
func (h *history) OnDelete(obj any)      { *h = append(*h, "delete", copied(obj)) }

func copied(obj any) any { return obj.(*corev1.Pod).DeepCopy() }

// randomState changes some parts of p.
func randomState(r *rand.Rand, p *corev1.Pod) {
	if r.IntN(3) == 0 {
		p.Spec = corev1.PodSpec{NodeName: fmt.Sprint(r.IntN(2)), Containers: make([]corev1.Container, r.IntN(3))}
		for n := range p.Spec.Containers {
			p.Spec.Containers[n] = corev1.Container{Name: fmt.Sprint(n), Args: []string{fmt.Sprint("--port=", r.IntN(2))}}
		}
		if r.IntN(4) == 0 { // readers of a Quantity write to it
			limit := resource.MustParse("1Gi")
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit},
			}}}
		}
	}
	if r.IntN(2) == 0 {
		p.Labels = map[string]string{"app": fmt.Sprint(r.IntN(3))}
	}
	if r.IntN(2) == 0 {
		p.Status = corev1.PodStatus{PodIP: fmt.Sprint(r.IntN(3)), Conditions: make([]corev1.PodCondition, r.IntN(3))}
	}
	if r.IntN(2) == 0 {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fmt.Sprint(r.IntN(3))}}
	}
}

func TestHandlersGetWholeObjectsThoughSpecsAreReused(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			r := rand.New(rand.NewPCG(seed, 40))
			var servers [2]stream
			var histories [2]history
			var by clientgo.Informers
			theirs := cache.NewSharedIndexInformer(podsOf(servers[0].client(nil)), &corev1.Pod{}, 0, cache.Indexers{})
			ours := newKnown(&by, podsOf(servers[1].client(clientgo.ReuseSpecs)))
			for n, shared := range []cache.SharedIndexInformer{theirs, ours} {
				if seed%2 == 0 {
					g.Expect(shared.SetTransform(clientgo.DropManagedFields)).To(Succeed())
				}
				handle(g, shared, &histories[n])
				start(t, shared)
			}
			pods := map[int]*corev1.Pod{}
			for version := range 200 {
				n := r.IntN(4)
				p, kind := pods[n], watch.Modified
				switch {
				case p == nil:
					p, kind = namedPod(fmt.Sprint(n)), watch.Added
					p.UID = types.UID(fmt.Sprint(version))
					pods[n] = p
				case r.IntN(10) == 0:
					kind = watch.Deleted
					delete(pods, n)
				}
				randomState(r, p)
				p.ResourceVersion = fmt.Sprint(version + 100)
				for i := range servers {
					servers[i].send(kind, p)
					if version == 0 {
						servers[i].endList()
					}
				}
			}
			g.Expect(histories[1]).To(Equal(histories[0]), "seed %d", seed)
			g.Expect(by.Status()[0].FullDecode).To(BeEmpty())
		})
	}
}

// The store takes objects of any type from its users, under any key.
func TestAStoredObjectOfAnotherTypeHasNoSpecToReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := &stream{}
		shared := newShared(podsOf(s.client(clientgo.ReuseSpecs)))
		start(t, shared)
		s.endList()
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "1"}}
		g.Expect(shared.GetStore().Add(foreign)).To(Succeed())
		s.send(watch.Modified, podOn("n", "11", corev1.PodRunning))
		g.Expect(shared.GetStore().List()).To(ConsistOf(HaveField("Spec.NodeName", "n")))
	})
}
