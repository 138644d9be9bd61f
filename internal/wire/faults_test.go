package wire_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// around returns two events of an object, with an event in between. The event
// in between has been read before the second event arrives.
func around(o *corev1.Pod) []watch.Event {
	both := modified(o, o)
	return []watch.Event{both[0], bookmarked("5"), both[1]}
}

// A conformance is a server, and the additional results that a test must see.
type conformance struct {
	name   string
	server server
	config rest.Config
	left   bool   // some specs are left out
	why    string // none are
	events int
}

func conformances() []conformance {
	node := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "x"}}
	events := modified(
		pod("1", "x", "Pending"), pod("2", "x", "Running"), pod("3", "y", "Running"), pod("4", "y", "Failed"))
	events = append([]watch.Event{{Type: watch.Added, Object: pod("0", "x", "")}, bookmarked("1")}, events...)
	events = append(events, watch.Event{Type: watch.Deleted, Object: pod("6", "y", "Failed")})
	sent := protobuf(events...)
	gone := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}
	text, _ := json.Marshal(gone)
	ok := stream(watched, sent, io.EOF)
	const most = 7
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	whole := protobuf(modified(pod("1", "x", "Running"))...)
	in := func(mediaType string) []byte { return wiretest.Bytes(mediaType, events...) }
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(sent)
	_ = z.Close()
	all := []conformance{
		{name: "a streaming list, updates, a deletion", server: server{ok}, left: true, events: most},
		{
			name:   "a connection that ends thrice",
			server: server{failing(io.EOF), failing(io.ErrUnexpectedEOF), failing(io.EOF), ok},
			left:   true, events: most,
		},
		{name: "connections that end", server: server{failing(io.EOF)}},
		{name: "a reset", server: server{failing(errReset), ok}, left: true, events: most},
		{name: "resets", server: server{failing(errReset)}},
		{name: "a timeout", server: server{failing(context.DeadlineExceeded), ok}, left: true, events: most},
		{name: "refused", server: server{failing(refused)}},
		{
			name:   "no trust",
			server: server{failing(errors.New("x509: certificate signed by unknown authority"))},
		},
		{
			name: "401",
			server: server{
				status(401, `{"kind":"Status","apiVersion":"v1","code":401,"reason":"Unauthorized"}`,
					"Content-Type", "application/json"),
			},
		},
		{name: "403 in text", server: server{status(403, "no", "Content-Type", "text/plain")}},
		{name: "404", server: server{status(404, "404 page not found\n")}},
		{name: "410", server: server{status(410, string(text), "Content-Type", "application/json")}},
		{
			name: "429 with Retry-After",
			server: server{
				status(429, "slow", "Retry-After", "3"), status(429, "slow", "Retry-After", "120"), ok,
			},
			left: true, events: most,
		},
		{name: "429 forever", server: server{status(429, "slow", "Retry-After", "3")}},
		{name: "429 without Retry-After", server: server{status(429, "slow")}},
		{name: "500", server: server{status(500, "oh")}},
		{
			name:   "503 with Retry-After",
			server: server{status(503, "oh", "Retry-After", "1"), failing(io.EOF), ok},
			left:   true, events: most,
		},
		{
			name:   "redirected",
			server: server{status(307, "", "Location", "http://other/path"), ok},
			left:   true, events: most,
		},
		{name: "204", server: server{status(204, "")}},
		{
			name:   "warnings",
			server: server{stream(watched, sent, io.EOF, "Warning", `299 - "old"`, "Warning", `299 - "bad"`)},
			left:   true, events: most,
		},
		{
			name: "an expired version",
			server: server{
				stream(watched, protobuf(bookmarked("3"), watch.Event{Type: watch.Error, Object: gone}), io.EOF),
			},
			events: 2,
		},
		{
			name:   "a body that is reset",
			server: server{stream(watched, sent[:len(sent)-5], errReset.Err)},
			left:   true, events: most - 1,
		},
		{
			name:   "a body that fails",
			server: server{stream(watched, sent[:len(sent)-5], errors.New("oh"))},
			left:   true, events: most,
		},
		{
			name:   "a body that is not complete",
			server: server{stream(watched, sent, io.ErrUnexpectedEOF)},
			left:   true, events: most,
		},
		{name: "no body", server: server{stream(watched, nil, io.EOF)}},
		{
			name:   "the client's timeout",
			server: server{stream(watched, sent, nil)},
			config: rest.Config{Timeout: 5 * time.Second}, left: true, events: most,
		},
		{
			name:   "the end of the context",
			server: server{stream(watched, sent, nil)},
			left:   true, events: most,
		},
		{
			name:   "cut in a length",
			server: server{stream(watched, append(slices.Clone(sent), 0, 0), io.EOF)},
			left:   true, events: most,
		},
		{
			name:   "a frame of 1 MB",
			server: server{stream(watched, protobuf(around(large(1<<20))...), io.EOF)},
			left:   true, events: 3,
		},
		{
			name:   "a frame as large as is looked into",
			server: server{stream(watched, protobuf(around(large(wire.MaxFrame))...), io.EOF)},
			events: 3,
		},
		{
			name:   "a frame too large for the client",
			server: server{stream(watched, protobuf(modified(pod("1", "x", ""), large(17<<20))...), io.EOF)},
			events: 2,
		},
		{
			name:   "a frame of 2 GB",
			server: server{stream(watched, []byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3}, io.EOF)},
		},
		{name: "an empty frame", server: server{stream(watched, framed(nil), io.EOF)}, events: 1},
		{
			name: "no magic",
			server: server{
				stream(watched, bytes.Replace(whole, []byte("k8s\x00"), []byte("k9s\x00"), 1), io.EOF),
			},
			events: 1,
		},
		{name: "not protobuf", server: server{stream(watched, framed([]byte{0xff, 0xff}), io.EOF)}},
		{
			name: "no known type",
			server: server{
				stream(watched, bytes.Replace(whole, []byte("MODIFIED"), []byte("MORPHING"), 1), io.EOF),
			},
			events: 1,
		},
		{
			name: "another kind",
			server: server{
				stream(watched, protobuf(watch.Event{Type: watch.Added, Object: node}), io.EOF),
			},
			events: 1,
		},
		{
			name:   "JSON",
			server: server{stream("application/json", in(runtime.ContentTypeJSON), io.EOF)},
			events: most, why: `the server sends "application/json"`,
		},
		{
			name:   "JSON, asked for",
			server: server{stream("application/json", in(runtime.ContentTypeJSON), io.EOF)},
			config: rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
			events: most, why: `the server sends "application/json"`,
		},
		{
			name:   "half of JSON",
			server: server{stream("application/json", []byte(`{"type":"ADDED","obj`), io.EOF)},
			why:    `the server sends "application/json"`,
		},
		{
			name: "JSON too large",
			server: server{
				stream("application/json", wiretest.Bytes(runtime.ContentTypeJSON, modified(large(17<<20))...), io.EOF),
			},
			events: 1, why: `the server sends "application/json"`,
		},
		{
			name:   "JSON that is called protobuf",
			server: server{stream(watched, in(runtime.ContentTypeJSON), io.EOF)},
		},
		{name: "CBOR", server: server{stream("application/cbor-seq", []byte{0xa1, 0x64}, io.EOF)}},
		{
			name:   "no media type",
			server: server{stream("", in(runtime.ContentTypeJSON), io.EOF)},
			events: most, why: `the server sends ""`,
		},
		{
			name:   "an unknown media type",
			server: server{stream("text/html; charset=utf-8", []byte("<html>"), io.EOF)},
		},
		{
			name:   "not decompressed",
			server: server{stream(watched, zipped.Bytes(), io.EOF, "Content-Encoding", "gzip")},
			why:    `the server sends content encoded with "gzip"`,
		},
	}
	for n := 1; n < 8; n++ { // of a length, a frame, a body
		all = append(all, conformance{
			name:   fmt.Sprintf("%d bytes of a frame", n*len(whole)/8),
			server: server{stream(watched, whole[:n*len(whole)/8], io.EOF)},
		})
	}
	return all
}

// framed puts the length of an event in front of it.
func framed(event []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func large(size int) *corev1.Pod {
	p := pod("5", "x", "Running")
	p.Annotations = map[string]string{"large": strings.Repeat("x", size)}
	return p
}

func bookmarked(version string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}}
}
