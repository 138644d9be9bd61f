// Package wiretest makes the bytes of watches for tests.
package wiretest

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// InfoOf returns the serializer of a media type, such as
// [runtime.ContentTypeProtobuf]. It panics if the media type is unknown.
func InfoOf(mediaType string) runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		panic("unknown media type " + mediaType)
	}
	return info
}

// Bytes returns events about objects of built-in kinds as the API server sends
// them. It panics if an event cannot be encoded.
func Bytes(mediaType string, events ...watch.Event) []byte {
	var out bytes.Buffer
	m := InfoOf(mediaType)
	stream := streaming.NewEncoder(m.StreamSerializer.NewFrameWriter(&out), m.StreamSerializer.Serializer)
	for _, e := range events {
		kinds, _, err := scheme.Scheme.ObjectKinds(e.Object)
		if err != nil {
			panic(err)
		}
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(m.Serializer, kinds[0].GroupVersion()), e.Object)
		if err == nil {
			err = stream.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: body}})
		}
		if err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}
