package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"sync"
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

// theirs returns client-go's decoder of the bytes that the server sends.
func theirs(mediaType string, sent io.ReadCloser) *restwatch.Decoder {
	m := wiretest.InfoOf(mediaType)
	frames := m.StreamSerializer.NewFrameReader(sent)
	codecs := scheme.Codecs.WithoutConversion()
	return restwatch.NewDecoder(streaming.NewDecoder(frames, m.StreamSerializer.Serializer),
		codecs.DecoderToVersion(m.Serializer, nil))
}

func reader(sent []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(sent)) }

func protobuf(events ...watch.Event) []byte {
	return wiretest.Bytes(runtime.ContentTypeProtobuf, events...)
}

// A decoder is client-go's decoder of the shortened bytes. It replaces the
// placeholders by their objects.
type decoder struct {
	*restwatch.Decoder
	specs  *wire.Specs
	memory *memory
	server *stepped
}

func ours(sent []byte, kind reflect.Type, m *memory) *decoder {
	k, ok := wire.KindOf(kind)
	if !ok {
		panic(kind)
	}
	specs, server := wire.NewSpecs(k, m.known), &stepped{sent: sent, step: make(chan struct{}, 1)}
	return &decoder{theirs(runtime.ContentTypeProtobuf, specs.Body(server)), specs, m, server}
}

// stepped sends the next frame only when it is told to, after the previous
// object has been taken.
type stepped struct {
	sent []byte
	rest int // of the current frame
	step chan struct{}
}

func (s *stepped) Read(p []byte) (n int, err error) {
	if s.rest == 0 {
		if _, open := <-s.step; !open {
			return 0, io.ErrClosedPipe
		}
		s.rest = frameSize(s.sent)
	}
	n = copy(p[:min(len(p), s.rest)], s.sent)
	s.sent, s.rest = s.sent[n:], s.rest-n
	if n == 0 {
		err = io.EOF
	}
	return n, err
}

func (s *stepped) Close() error {
	close(s.step)
	return nil
}

// frameSize is the size of the first frame of sent, which may be incomplete.
func frameSize(sent []byte) int {
	if len(sent) < 4 {
		return len(sent)
	}
	return int(min(uint64(len(sent)), 4+uint64(binary.BigEndian.Uint32(sent))))
}

func (d *decoder) Decode() (watch.EventType, runtime.Object, error) {
	select {
	case d.server.step <- struct{}{}:
	default: // the last frame is incomplete
	}
	t, o, err := d.Decoder.Decode()
	if err != nil {
		return t, o, err
	}
	if object, ok := o.(wire.Object); ok {
		o, err = d.memory.take(d.specs, object)
	}
	return t, o, err
}

// A memory is a cache that has the last state of each object.
type memory struct {
	mu     sync.Mutex // guards the fields below
	states map[types.NamespacedName]wire.State
	left   int // specs that were left out
}

func newMemory() *memory { return &memory{states: map[types.NamespacedName]wire.State{}} }

func (m *memory) known(key types.NamespacedName) wire.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[key]
}

// take returns the object that has arrived, and records it.
func (m *memory) take(s *wire.Specs, o wire.Object) (wire.Object, error) {
	o, spec, err := s.Take(o)
	if err != nil || spec.Fingerprint == (wire.Fingerprint{}) {
		return o, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if spec.SharedWith != nil {
		m.left++
	}
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	m.states[key] = wire.State{Object: o, Spec: spec.Fingerprint}
	return o, nil
}

// For every built-in kind, the result equals the result of client-go's decoder.
// The test sends random objects, and states of one object that have the spec,
// the status, or neither in common.
func TestWhatComesIsWhatClientGoDecodes(t *testing.T) {
	fill := apitesting.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme.Scheme))
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
			state.Interface().(metav1.Object).SetSelfLink("") // as servers do
			state.Interface().(metav1.Object).SetUID("1")
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
		// other again, and state after another, each time.
		if left := same(t, gvk, protobuf(events...), reflect.PointerTo(typ)); left < 6 {
			t.Errorf("%s: %d specs were left out", gvk, left)
		}
	}
	if kinds < 60 {
		t.Errorf("%d kinds: that is too few", kinds)
	}
}

// same compares the two decoders until the end and returns how many specs were
// left out.
func same(t *testing.T, gvk schema.GroupVersionKind, sent []byte, kind reflect.Type) (left int) {
	t.Helper()
	m := newMemory()
	a, b := ours(sent, kind, m), theirs(runtime.ContentTypeProtobuf, reader(sent))
	defer a.Close()
	for n := 0; ; n++ {
		typeA, objectA, errA := a.Decode()
		typeB, objectB, errB := b.Decode()
		if errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF) {
			if untaken := a.specs.Untaken(); untaken > 0 {
				t.Errorf("%s: %d objects were not taken", gvk, untaken)
			}
			return m.left
		}
		if errA != nil || errB != nil {
			t.Fatalf("%s, event %d: %v and %v", gvk, n, errA, errB)
		}
		if typeA != typeB || !reflect.DeepEqual(objectA, objectB) {
			t.Fatalf("%s, event %d: %v %+v, client-go has %v %+v", gvk, n, typeA, objectA, typeB, objectB)
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

func decoded(t *testing.T, d *decoder, n int) []*corev1.Pod {
	t.Helper()
	defer d.Close()
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
	g.Expect(container(3)).NotTo(BeIdenticalTo(container(0)), "the state that the cache has differs")
	g.Expect([]string{container(0).Image, container(2).Image, container(3).Image}).To(Equal([]string{"x", "y", "x"}))
	g.Expect(p[1].Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(p[1].ResourceVersion).To(Equal("2"))
}

// A new object is not decoded twice, because it has no known spec.
func TestAnObjectThatIsNotKnownIsNotReplaced(t *testing.T) {
	g := NewWithT(t)
	kind, _ := wire.KindOf(podType)
	specs, sent := wire.NewSpecs(kind, newMemory().known), pod("1", "x", "Running")
	d := theirs(runtime.ContentTypeProtobuf, specs.Body(reader(protobuf(modified(sent)...))))
	defer d.Close()
	_, received, err := d.Decode()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(received.(*corev1.Pod).Spec).To(Equal(sent.Spec))
	o, spec, err := specs.Take(received.(wire.Object))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o).To(BeIdenticalTo(received))
	g.Expect(o.GetSelfLink()).To(BeEmpty())
	g.Expect(spec.Fingerprint).NotTo(BeZero())
	g.Expect(spec.SharedWith).To(BeNil())
}

func TestTheSpecOfAnotherObjectIsDecoded(t *testing.T) {
	g := NewWithT(t)
	another := pod("2", "x", "Running")
	another.UID = "2"
	p := decoded(t, ours(protobuf(modified(pod("1", "x", "Running"), another)...), podType, newMemory()), 2)
	g.Expect(&p[1].Spec.Containers[0]).NotTo(BeIdenticalTo(&p[0].Spec.Containers[0]))
}

func TestASpecOfUnknownBytesIsDecoded(t *testing.T) {
	g := NewWithT(t)
	m, listed := newMemory(), pod("1", "x", "Pending")
	m.states[types.NamespacedName{Namespace: "d", Name: "a"}] = wire.State{Object: listed}
	p := decoded(t, ours(protobuf(modified(pod("2", "x", "Running"))...), podType, m), 1)
	g.Expect(&p[0].Spec.Containers[0]).NotTo(BeIdenticalTo(&listed.Spec.Containers[0]))
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
	left := same(t, corev1.SchemeGroupVersion.WithKind("Pod"), sent.Bytes(), podType)
	NewWithT(t).Expect(left).To(BeZero())
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

// FuzzDecode looks for bytes for which client-go returns another object or
// error when specs are left out.
func FuzzDecode(f *testing.F) {
	f.Add(protobuf(modified(pod("1", "x", "Pending"), pod("2", "x", "Running"))...))
	f.Add(protobuf(watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410}}))
	f.Fuzz(func(t *testing.T, sent []byte) {
		a := ours(sent, podType, newMemory())
		defer a.Close()
		b := theirs(runtime.ContentTypeProtobuf, reader(sent))
		for range 10 {
			kind, object, err := a.Decode()
			theirKind, theirs, theirErr := b.Decode()
			if kind != theirKind || !reflect.DeepEqual(object, theirs) || fmt.Sprint(err) != fmt.Sprint(theirErr) {
				t.Fatalf("%v %+v %v, client-go has %v %+v %v", kind, object, err, theirKind, theirs, theirErr)
			}
			if err != nil {
				return
			}
		}
	})
}
