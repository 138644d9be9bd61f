package answer_test

import (
	"bytes"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/internal/answer"
)

func pod() *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "d", Name: "p", UID: "u", ResourceVersion: "42", Generation: 3,
			Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/f"},
			DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: &grace,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
}

func jsonOf(g *WithT, object any) []byte {
	data, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	return data
}

func protobufOf(g *WithT, object runtime.Object) []byte {
	var b bytes.Buffer
	g.Expect(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &b)).To(Succeed())
	return b.Bytes()
}

func cborOf(g *WithT, object any) []byte {
	data, err := direct.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	return append([]byte{0xd9, 0xd9, 0xf7}, data...) // the server's mark of CBOR
}

func TestAnObjectIsReadInEveryEncoding(t *testing.T) {
	g := NewWithT(t)
	full := pod()
	full.DeletionTimestamp = nil
	for name, c := range map[string]struct {
		contentType string
		body        []byte
	}{
		"JSON":     {"application/json", jsonOf(g, full)},
		"charset":  {"application/json; charset=utf-8", jsonOf(g, full)},
		"protobuf": {"application/vnd.kubernetes.protobuf", protobufOf(g, full)},
		"CBOR":     {"application/cbor", cborOf(g, full)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(answer.Readable(c.contentType)).To(BeTrue())
			o, err := answer.Read(c.contentType, c.body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.TypeMeta).To(Equal(full.TypeMeta))
			g.Expect(o.ObjectMeta).To(Equal(full.ObjectMeta))
			var whole corev1.Pod
			g.Expect(o.Into(&whole)).To(Succeed())
			g.Expect(whole.Spec).To(Equal(full.Spec))
			g.Expect(whole.ManagedFields).To(Equal(full.ManagedFields))
		})
	}
}

func TestTheStateOfDeletionIsRead(t *testing.T) {
	g := NewWithT(t)
	deleted := pod()
	now := metav1.Now().Rfc3339Copy()
	deleted.DeletionTimestamp = &now
	for contentType, body := range map[string][]byte{
		"application/json": jsonOf(g, deleted), "application/vnd.kubernetes.protobuf": protobufOf(g, deleted),
	} {
		o, err := answer.Read(contentType, body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(o.DeletionTimestamp.Equal(&now)).To(BeTrue())
		g.Expect(*o.DeletionGracePeriodSeconds).To(Equal(int64(30)))
	}
}

func TestAStatusIsReadInEveryEncoding(t *testing.T) {
	g := NewWithT(t)
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: "p", UID: "u", Kind: "pods"},
	}
	for contentType, body := range map[string][]byte{
		"application/json": jsonOf(g, status), "application/vnd.kubernetes.protobuf": protobufOf(g, status),
		"application/cbor": cborOf(g, status),
	} {
		o, err := answer.Read(contentType, body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(o.Status.Status).To(Equal(metav1.StatusSuccess))
		g.Expect(o.Status.Details.UID).To(Equal(status.Details.UID))
		g.Expect(o.Into(&corev1.Pod{})).NotTo(Succeed())
	}
}

func TestMetadataAloneIsNoObject(t *testing.T) {
	g := NewWithT(t)
	part := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", UID: "u", ResourceVersion: "42"},
	}
	for contentType, body := range map[string][]byte{
		"application/json": jsonOf(g, part), "application/vnd.kubernetes.protobuf": protobufOf(g, part),
	} {
		o, err := answer.Read(contentType, body)
		g.Expect(err).NotTo(HaveOccurred(), contentType)
		g.Expect(o.ObjectMeta).To(Equal(part.ObjectMeta), contentType)
		g.Expect(o.Into(&corev1.Pod{})).NotTo(Succeed(), contentType)
	}
}

// A custom kind may have any fields, for example the fields of a Table or a
// Status.
func TestFieldsOfACustomKindAreNotMisread(t *testing.T) {
	g := NewWithT(t)
	o, err := answer.Read("application/json", []byte(`{"kind":"Table","apiVersion":"example.com/v1","rows":3,
		"details":"none","status":"Success","metadata":{"name":"x","uid":"u","resourceVersion":"7"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Name + o.ResourceVersion).To(Equal("x7"))
	var whole unstructured.Unstructured
	g.Expect(o.Into(&whole)).To(Succeed())
	g.Expect(whole.Object["rows"]).To(Equal(int64(3)))
	g.Expect(o.Status).To(BeNil())
}

func TestOtherBodiesAreErrors(t *testing.T) {
	g := NewWithT(t)
	for _, c := range []struct{ contentType, body string }{
		{"", "{}"},
		{"text/plain", "{}"},
		{"application/json", "{"},
		{"application/json", "\x1f\x8b"}, // gzip
		{"application/cbor", "\xff"},
		{"application/vnd.kubernetes.protobuf", "{}"},
		{"application/vnd.kubernetes.protobuf", "k8s\x00\x12\x05a"},
		{"application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`},
	} {
		_, err := answer.Read(c.contentType, []byte(c.body))
		g.Expect(err).To(HaveOccurred(), "%q %q", c.contentType, c.body)
	}
	g.Expect(answer.Readable("application/json;stream=watch")).To(BeFalse())
	g.Expect(answer.Readable("application/octet-stream")).To(BeFalse())
}

func FuzzRead(f *testing.F) {
	g := NewWithT(f)
	f.Add(uint8(0), jsonOf(g, pod()))
	f.Add(uint8(1), protobufOf(g, pod()))
	f.Add(uint8(2), cborOf(g, pod()))
	types := []string{"application/json", "application/vnd.kubernetes.protobuf", "application/cbor"}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		o, err := answer.Read(types[int(kind)%len(types)], body)
		if err == nil {
			_ = o.Into(&corev1.Pod{}) // must not panic
		}
	})
}
