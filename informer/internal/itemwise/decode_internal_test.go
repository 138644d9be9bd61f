package itemwise

import (
	"errors"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func TestADecoderKnowsWhatIsNoObject(t *testing.T) {
	g := NewWithT(t)
	const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	d := newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion, "")
	for _, decode := range []decoderFunc{d.decodeEvent, d.decodeList} {
		got, err := decode([]byte(expired))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(apierrors.FromObject(got)).To(MatchError(apierrors.IsResourceExpired, "IsResourceExpired"))
	}
	_, err := d.decodeList([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`))
	g.Expect(err).To(MatchError(`the server sent a "Pod", not a list`))
	pod, err := d.decodeEvent([]byte(`{"kind":"Pod","metadata":{"name":"Status"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod).To(HaveField("Name", "Status"))
}

// A kind of another group may be called like the kind of the server's errors.
func TestAStatusOfAnotherGroupIsAnObject(t *testing.T) {
	g := NewWithT(t)
	d := newObjectDecoder[*unstructured.Unstructured](schema.GroupVersion{Group: "example.com", Version: "v1"}, "")
	const own = `{"kind":"Status","apiVersion":"example.com/v1","metadata":{"name":"a"}}`
	got, err := d.decodeEvent([]byte(own))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(BeAssignableToTypeOf(&unstructured.Unstructured{}))
	_, err = d.decodeList([]byte(own))
	g.Expect(err).To(MatchError(`the server sent a "Status", not a list`))
}

// lists returns lists in lists.
func lists(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// Without the object's name, it is not known whose last state is to be kept.
func TestAListWithAnUndecodableObjectWithoutANameIsNotDecoded(t *testing.T) {
	g := NewWithT(t)
	d := newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion, "")
	for _, item := range []string{
		`null`, `5`, `{}`, `{"metadata":{"name":5}}`, `{"metadata":{"name":"a","namespace":[]}}`,
		`{"metadata":{},"spec":` + lists(10001) + `}`, `{"metadata":` + lists(10001) + `}`,
	} {
		_, err := d.decodeList([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[` + item + `]}`))
		if item == "null" || item == "{}" { // which is decodable
			g.Expect(err).NotTo(HaveOccurred())
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring("decoding an object whose name cannot be read")), "%.100s", item)
		_, err = d.decodeEvent([]byte(item))
		g.Expect(err).To(HaveOccurred(), "%.100s", item)
	}
}

// The name says which object it is.
func TestMetadataIsDecodedAsFarAsItGoes(t *testing.T) {
	g := NewWithT(t)
	d := newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion, "")
	for item, want := range map[string]metav1.ObjectMeta{
		`{"name":"a","uid":"u","resourceVersion":7}`:      {Name: "a", UID: "u", ResourceVersion: "7"},
		`{"name":"a","uid":"u","resourceVersion":true}`:   {Name: "a", UID: "u"},
		`{"name":"a","uid":{},"resourceVersion":"7"}`:     {Name: "a", ResourceVersion: "7"},
		`{"name":"a","labels":{"a":"b"},"generation":""}`: {Name: "a", Labels: map[string]string{"a": "b"}},
		`{"name":"a","labels":{"a":"b","c":5}}`:           {Name: "a"},
	} {
		object, err := d.decodeEvent([]byte(`{"metadata":` + item + `}`))
		g.Expect(err).NotTo(HaveOccurred(), item)
		stub := object.(*corev1.Pod)
		g.Expect(RefusalOf(stub)).NotTo(BeNil(), item)
		stub.SelfLink = "" //nolint:staticcheck // it has the reason
		g.Expect(stub.ObjectMeta).To(Equal(want), item)
	}
}

func TestNestedMetadataIsDecodedAsFarAsItGoes(t *testing.T) {
	g := NewWithT(t)
	d := newObjectDecoder[*metav1.PartialObjectMetadata](corev1.SchemeGroupVersion, "")
	item := func(levels int) string {
		return `{"metadata":{"name":"a","namespace":"d","uid":"u","resourceVersion":"7","managedFields":[{"fieldsV1":` +
			lists(levels) + `}]},"kind":"PartialObjectMetadata"}`
	}
	for levels, left := range map[int]bool{9996: false, 9997: true} {
		list, err := d.decodeList([]byte(`{"items":[` + item(levels) + `,` + item(1) + `],"kind":"PartialObjectMetadataList",` +
			`"metadata":{"resourceVersion":"9","continue":"more"}}`))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list).To(And(HaveField("ResourceVersion", "9"), HaveField("Continue", "more"),
			HaveField("Items", HaveLen(2))))
		for n, o := range list.(*List).Items {
			g.Expect(Identity(o.(*metav1.PartialObjectMetadata))).To(Equal(metav1.ObjectMeta{
				Name: "a", Namespace: "d", UID: "u", ResourceVersion: "7",
			}))
			g.Expect(isStub(o)).To(Equal(left && n == 0))
		}
	}
	_, err := d.decodeList([]byte(`{"items":[` + item(10001) + `,],"kind":"PartialObjectMetadataList"}`))
	g.Expect(err).To(MatchError(ContainSubstring("decoding a list")))
	_, err = d.decodeList([]byte(`{"items":[` + item(10001) + `],"kind":"Status"}`))
	g.Expect(err).To(MatchError(ContainSubstring("exceeded max depth")))
}

// A list of a built-in kind has the kind, and its objects do not.
func TestUntypedObjectsOfAListHaveTheirKind(t *testing.T) {
	g := NewWithT(t)
	d := newObjectDecoder[*unstructured.Unstructured](corev1.SchemeGroupVersion, "")
	list, err := d.decodeList([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` +
		`{"metadata":{"name":"a"}},{"kind":"Own","apiVersion":"v2","metadata":{"name":"b"}}]}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.(*List).Items).To(HaveExactElements(
		And(HaveField("Object", HaveKeyWithValue("kind", "Pod")), HaveField("Object", HaveKeyWithValue("apiVersion", "v1"))),
		WithTransform(whyOf, HaveField("Err", MatchError(ContainSubstring(`of kind "Own", not "Pod"`))))))
}

func whyOf(object runtime.Object) *Refusal { return RefusalOf(object.(Object)) }

// A CustomResourceDefinition may have any spec.names.listKind.
func TestAListMayBeNamedDifferentlyThanItsObjects(t *testing.T) {
	for _, kind := range []string{"WidgetsList", "WidgetCollection"} {
		for name, decode := range map[string]func(data []byte) (runtime.Object, error){
			"untyped": newObjectDecoder[*unstructured.Unstructured](corev1.SchemeGroupVersion, "").decodeList,
			"typed":   newObjectDecoder[*corev1.ConfigMap](corev1.SchemeGroupVersion, "").decodeList,
			"known":   newObjectDecoder[*corev1.ConfigMap](corev1.SchemeGroupVersion, "Widget").decodeList,
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				g := NewWithT(t)
				const objects = `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"}},` +
					`{"apiVersion":"v1","kind":"Widget","metadata":{"name":"b"}}`
				list, err := decode([]byte(`{"kind":"` + kind + `","apiVersion":"v1","metadata":{"resourceVersion":"1"},` +
					`"items":[` + objects + `]}`))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(list.(*List).Items).To(HaveLen(2))
				g.Expect(list.(*List).Items).To(HaveEach(WithTransform(whyOf, BeNil())))

				list, err = decode([]byte(`{"kind":"` + kind + `","apiVersion":"v1","metadata":{},"items":[]}`))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(list.(*List).Items).To(BeEmpty())
			})
		}
	}
}

func TestAStreamIsDividedIntoObjects(t *testing.T) {
	g := NewWithT(t)
	for _, size := range []int{1, 3, 1 << 20} {
		read := func(stream string) (all []string, err error) {
			r := nestedFramer{}.NewFrameReader(io.NopCloser(strings.NewReader(stream)))
			object, p := "", make([]byte, size)
			for {
				n, err := r.Read(p)
				object += string(p[:n])
				switch {
				case err == nil:
					all, object = append(all, object), ""
				case !errors.Is(err, io.ErrShortBuffer):
					return all, err
				}
			}
		}
		objects := []string{`{}`, `{"a":"}"}`, `{"a":"\"}\\"}`, `{"a":[{"b":{}}, "["]}`, `{"a":` + lists(20000) + `}`}
		all, err := read(" " + strings.Join(objects, "\n\r\t ") + "\n")
		g.Expect(err).To(MatchError(io.EOF))
		g.Expect(all).To(Equal(objects))
		all, err = read(`{"a":1}{"b":`)
		g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
		g.Expect(all).To(Equal([]string{`{"a":1}`}))
		_, err = read(`<html>`)
		g.Expect(err).To(MatchError(errNoFrame))
	}
}

// Only an undecodable object is a reason to decode object by object. A broken
// stream is not.
func TestAWatchThatCannotBeReadIsNoUndecodableObject(t *testing.T) {
	g := NewWithT(t)
	for message, ends := range map[string]bool{
		`unable to decode watch event: json: cannot unmarshal string`:         true,
		`unable to decode an event from the watch stream: http2: server gone`: false,

		`unable to decode an event from the watch stream: invalid character '{' exceeded max depth`: true,
	} {
		i := &sender{}
		status := &metav1.Status{Status: metav1.StatusFailure, Code: 500, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: clientWatchDecoding, Message: message}},
		}}
		g.Expect(i.endsUndecodable(watch.Event{Type: watch.Error, Object: status})).To(Equal(ends), message)
		g.Expect(i.isOn()).To(Equal(ends), message)
		g.Expect(i.endsUndecodable(watch.Event{Type: watch.Added, Object: status})).To(BeFalse())
	}
}
