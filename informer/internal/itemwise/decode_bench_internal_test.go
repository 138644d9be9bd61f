package itemwise

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
)

// BenchmarkDecode decodes a list of 100 Pods, and a watch that delivers them.
func BenchmarkDecode(b *testing.B) {
	g := NewWithT(b)
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	var events strings.Builder
	for n := range 100 {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", n), Namespace: "d", Labels: map[string]string{"a": "b"}}}
		for c := range 5 {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: fmt.Sprint("c", c), Image: "registry.example.com/image:v1", Args: []string{"--x", "--y=\"z\""},
				Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
			})
		}
		list.Items = append(list.Items, pod)
		raw, err := json.Marshal(pod)
		g.Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&events, `{"type":"ADDED","object":%s}`+"\n", raw)
	}
	raw, err := json.Marshal(list)
	g.Expect(err).NotTo(HaveOccurred())
	d := newObjectDecoder[*corev1.Pod](corev1.SchemeGroupVersion, "")
	b.Run("list", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			_, err := d.decodeList(raw)
			g.Expect(err).NotTo(HaveOccurred())
		}
	})
	b.Run("watch", func(b *testing.B) {
		b.SetBytes(int64(events.Len()))
		b.ReportAllocs()
		for b.Loop() {
			object, stream, framer, err := d.StreamDecoder(runtime.ContentTypeJSON, nil)
			g.Expect(err).NotTo(HaveOccurred())
			from := streaming.NewDecoder(framer.NewFrameReader(io.NopCloser(strings.NewReader(events.String()))), stream)
			var event metav1.WatchEvent
			for _, _, err = from.Decode(nil, &event); err == nil; _, _, err = from.Decode(nil, &event) {
				_, _, err := object.Decode(event.Object.Raw, nil, nil)
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(err).To(MatchError(io.EOF))
		}
	})
}
