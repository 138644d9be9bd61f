package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apitesting "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// theirs returns client-go's decoder of what the server sends.
func theirs(mediaType string, sent []byte) *restwatch.Decoder {
	m := wiretest.InfoOf(mediaType)
	frames := m.StreamSerializer.NewFrameReader(io.NopCloser(bytes.NewReader(sent)))
	codecs := scheme.Codecs.WithoutConversion()
	return restwatch.NewDecoder(streaming.NewDecoder(frames, m.StreamSerializer.Serializer),
		codecs.DecoderToVersion(m.Serializer, nil))
}

func protobuf(events ...watch.Event) []byte {
	return wiretest.Bytes(runtime.ContentTypeProtobuf, events...)
}

func ours(sent []byte, kind reflect.Type, c wire.Cache) *wire.Decoder {
	k, ok := wire.KindOf(kind)
	if !ok {
		panic(kind)
	}
	return wire.NewDecoder(io.NopCloser(bytes.NewReader(sent)), k, c)
}

// A memory is a cache that has the last state of each object.
type memory struct {
	states map[types.NamespacedName]wire.Object
	specs  map[wire.Object]wire.Fingerprint
}

func newMemory() *memory {
	return &memory{map[types.NamespacedName]wire.Object{}, map[wire.Object]wire.Fingerprint{}}
}

func (m *memory) Known(o wire.Object) (wire.Object, wire.Fingerprint) {
	state := m.states[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}]
	return state, m.specs[state]
}

func (m *memory) Decoded(o wire.Object, spec wire.Fingerprint, _ wire.Object) {
	m.states[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	m.specs[o] = spec
}

// Of every kind that is built in, what comes is what client-go's decoder makes of it: random objects, and states of
// one object that have the spec, the status, or neither in common.
func TestWhatComesIsWhatClientGoDecodes(t *testing.T) {
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		kinds := 0
		for gvk, typ := range scheme.Scheme.AllKnownTypes() {
			if _, ok := wire.KindOf(reflect.PointerTo(typ)); !ok || gvk.Version == runtime.APIVersionInternal {
				continue
			}
			kinds++
			var events []watch.Event
			for range 3 {
				state := reflect.New(typ)
				fill.Fill(state.Interface())
				other := reflect.New(typ)
				fill.Fill(other.Interface())
				other.Elem().FieldByName("ObjectMeta").Set(state.Elem().FieldByName("ObjectMeta"))
				another := reflect.New(typ)
				another.Elem().Set(other.Elem())
				another.Elem().FieldByName("Spec").Set(state.Elem().FieldByName("Spec"))
				for _, v := range []reflect.Value{state, other, other, another, state} {
					events = append(events, watch.Event{Type: watch.Modified, Object: v.Interface().(runtime.Object)})
				}
			}
			same(t, gvk, wiretest.Bytes(mediaType, events...), mediaType, reflect.PointerTo(typ))
		}
		if kinds < 60 {
			t.Errorf("%d kinds in %s: that is too few", kinds, mediaType)
		}
	}
}

// same compares the two decoders until the end.
func same(t *testing.T, gvk schema.GroupVersionKind, sent []byte, mediaType string, kind reflect.Type) {
	t.Helper()
	a, b := ours(sent, kind, newMemory()), theirs(mediaType, sent)
	for n := 0; ; n++ {
		typeA, objectA, errA := a.Decode()
		typeB, objectB, errB := b.Decode()
		if errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF) {
			return
		}
		if errA != nil || errB != nil {
			t.Fatalf("%s, event %d: %v and %v", gvk, n, errA, errB)
		}
		if typeA != typeB || !reflect.DeepEqual(objectA, objectB) {
			t.Fatalf("%s, event %d in %s: %v %+v, client-go has %v %+v", gvk, n, mediaType, typeA, objectA, typeB, objectB)
		}
	}
}

func pod(version, image, phase string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", ResourceVersion: version},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPhase(phase)},
	}
}

func modified(objects ...*corev1.Pod) []watch.Event {
	var events []watch.Event
	for _, o := range objects {
		events = append(events, watch.Event{Type: watch.Modified, Object: o})
	}
	return events
}

func decoded(t *testing.T, d *wire.Decoder, n int) []*corev1.Pod {
	t.Helper()
	var all []*corev1.Pod
	for range n {
		_, o, err := d.Decode()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		all = append(all, o.(*corev1.Pod))
	}
	return all
}

var podType = reflect.TypeFor[*corev1.Pod]()

func TestTheSpecIsDecodedOnlyIfItHasChanged(t *testing.T) {
	g := NewWithT(t)
	sent := protobuf(modified(
		pod("1", "x", "Pending"), pod("2", "x", "Running"), pod("3", "y", "Running"), pod("4", "x", "Running"))...)
	p := decoded(t, ours(sent, podType, newMemory()), 4)
	container := func(n int) *corev1.Container { return &p[n].Spec.Containers[0] }
	g.Expect(container(1)).To(BeIdenticalTo(container(0)))
	g.Expect(container(2)).NotTo(BeIdenticalTo(container(0)))
	g.Expect(container(3)).NotTo(BeIdenticalTo(container(0)), "the state that the cache has is another one")
	g.Expect([]string{container(0).Image, container(2).Image, container(3).Image}).To(Equal([]string{"x", "y", "x"}))
	g.Expect(p[1].Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(p[1].ResourceVersion).To(Equal("2"))
}

// forgetful is a cache that does not know what its states were decoded from.
type forgetful struct{ *memory }

func (f forgetful) Known(o wire.Object) (wire.Object, wire.Fingerprint) {
	state, _ := f.memory.Known(o)
	return state, 0
}

func TestTheSpecOfAnotherObjectIsDecoded(t *testing.T) {
	g := NewWithT(t)
	another := pod("2", "x", "Running")
	another.UID = "2"
	sent := protobuf(modified(pod("1", "x", "Running"), another)...)
	for _, c := range []wire.Cache{newMemory(), forgetful{newMemory()}} {
		p := decoded(t, ours(sent, podType, c), 2)
		g.Expect(&p[1].Spec.Containers[0]).NotTo(BeIdenticalTo(&p[0].Spec.Containers[0]))
	}
}

// No server sends a spec in two parts, but they add up.
func TestASpecInPartsIsDecoded(t *testing.T) {
	var sent bytes.Buffer
	frames := wiretest.InfoOf(runtime.ContentTypeProtobuf).StreamSerializer.NewFrameWriter(&sent)
	for _, image := range []string{"x", "y"} {
		first, err := pod("1", image, "").Marshal()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		second, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}).Marshal()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: append(first, second...)}
		body, err := envelope.Marshal()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), body...)}}
		frame, err := event.Marshal()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = frames.Write(frame)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
	same(t, corev1.SchemeGroupVersion.WithKind("Pod"), sent.Bytes(), runtime.ContentTypeProtobuf, podType)
}

func TestErrorsAndBookmarksCome(t *testing.T) {
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		g := NewWithT(t)
		c := newMemory()
		gone := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}
		mark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
		d := ours(wiretest.Bytes(mediaType, watch.Event{Type: watch.Bookmark, Object: mark},
			watch.Event{Type: watch.Error, Object: gone}), podType, c)
		kind, o, err := d.Decode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kind).To(Equal(watch.Bookmark))
		g.Expect(o.(*corev1.Pod).ResourceVersion).To(Equal("7"))
		g.Expect(c.specs).To(BeEmpty(), "a bookmark is no object")
		kind, o, err = d.Decode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kind).To(Equal(watch.Error))
		g.Expect(o.(*metav1.Status).Reason).To(Equal(metav1.StatusReasonExpired))
		_, _, err = d.Decode()
		g.Expect(err).To(Equal(io.EOF))
	}
}

func TestFaultsOfEventsAreNamed(t *testing.T) {
	whole := protobuf(modified(pod("1", "x", "Running"))...)
	broken := bytes.Replace(whole, []byte("k8s\x00"), []byte("k9s\x00"), 1)
	unknown := bytes.Replace(whole, []byte("MODIFIED"), []byte("MORPHING"), 1)
	for name, c := range map[string]struct {
		sent []byte
		err  string
	}{
		"cut short":           {whole[:len(whole)-1], "unexpected EOF"},
		"cut in its length":   {whole[:2], "unexpected EOF"},
		"too large":           {[]byte{0x7a, 0, 0, 0, 1}, "2046820352 bytes: at most 67108864"},
		"no magic":            {broken, `does not begin with "k8s\x00"`},
		"no event":            {[]byte{0, 0, 0, 2, 0xff, 0xff}, "malformed"},
		"unknown type":        {unknown, `unknown type, "MORPHING"`},
		"another kind":        {protobuf(watch.Event{Type: watch.Added, Object: &corev1.Node{}}), `kind "Node", not "Pod"`},
		"another kind, JSON":  {[]byte(`{"type":"ADDED","object":{"kind":"Node"}}`), `kind "Node", not "Pod"`},
		"not an object, JSON": {[]byte(`{"type":"ADDED","object":{"kind":"Pod","metadata":7}}`), "reading a Pod"},
		"half of it, JSON":    {[]byte(`{"type":"ADDED","obj`), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ours(c.sent, podType, newMemory()).Decode()
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.err)))
		})
	}
}

func TestKindsWithoutASpecAreNotRead(t *testing.T) {
	g := NewWithT(t)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[*corev1.ConfigMap](), reflect.TypeFor[corev1.Pod](), reflect.TypeFor[*metav1.PartialObjectMetadata](),
		reflect.TypeFor[*corev1.PodTemplate](), reflect.TypeFor[string](),
	} {
		_, ok := wire.KindOf(typ)
		g.Expect(ok).To(BeFalse(), typ.String())
	}
}

// FuzzDecode looks for bytes that are decoded otherwise than by client-go: both may refuse them.
func FuzzDecode(f *testing.F) {
	f.Add(protobuf(modified(pod("1", "x", "Pending"), pod("2", "x", "Running"))...))
	f.Add(protobuf(watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410}}))
	f.Add(wiretest.Bytes(runtime.ContentTypeJSON, modified(pod("1", "x", "Pending"))...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		a := ours(sent, podType, newMemory())
		mediaType := runtime.ContentTypeProtobuf
		if bytes.HasPrefix(sent, []byte("{")) {
			mediaType = runtime.ContentTypeJSON
		}
		b := theirs(mediaType, sent)
		for range 10 {
			kind, object, err := a.Decode()
			theirKind, theirs, theirErr := b.Decode()
			if err != nil || theirErr != nil {
				return
			}
			if kind != theirKind || !reflect.DeepEqual(object, theirs) {
				t.Fatalf("%v %+v, client-go has %v %+v", kind, object, theirKind, theirs)
			}
		}
	})
}
