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
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/homeostat/homeostat/internal/wire"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

const watched = "application/vnd.kubernetes.protobuf;stream=watch"

// A transcript is all that can be seen of a watch.
type transcript struct {
	Requests []string // and when
	Metrics  []string
	Warnings []string
	Err      string
	Events   []string
	Took     time.Duration
}

type transcriptKey struct{}

// counted notes metrics in the transcript of their context.
type counted struct{}

func (counted) Increment(ctx context.Context, code, method, host string) {
	if t, ok := ctx.Value(transcriptKey{}).(*transcript); ok {
		t.Metrics = append(t.Metrics, fmt.Sprint("result ", code, method, host))
	}
}

func (counted) IncrementRetry(ctx context.Context, code, method, host string) {
	if t, ok := ctx.Value(transcriptKey{}).(*transcript); ok {
		t.Metrics = append(t.Metrics, fmt.Sprint("retry ", code, method, host))
	}
}

func init() { metrics.RequestResult, metrics.RequestRetry = counted{}, counted{} }

func (t *transcript) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	t.Warnings = append(t.Warnings, fmt.Sprint(code, agent, text))
}

// A server answers one request after the other; the last answer is for all that follow.
type server []func(r *http.Request) (*http.Response, error)

// A played server is one whose requests are noted.
type played struct {
	script server
	began  time.Time
	to     *transcript
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	n := min(len(p.to.Requests), len(p.script)-1)
	p.to.Requests = append(p.to.Requests, fmt.Sprint(time.Since(p.began), " ", r.Method, r.URL, r.Header))
	answer, err := p.script[n](r)
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

func status(code int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return sending(code, func(context.Context) io.ReadCloser { return reader([]byte(body)) }, header...)
}

func sending(code int, body func(ctx context.Context) io.ReadCloser, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for n := 0; n < len(header); n += 2 {
			h.Add(header[n], header[n+1])
		}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h, Body: body(r.Context())}, nil
	}
}

func failing(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// A cut body ends with an error, or at the end of its context.
type cut struct {
	io.Reader
	err error
	ctx context.Context //nolint:containedctx // of the request
}

func (c *cut) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	if !errors.Is(err, io.EOF) || n > 0 {
		return n, nil
	}
	if c.err == nil {
		<-c.ctx.Done()
		return 0, context.Cause(c.ctx)
	}
	return 0, c.err
}

func (*cut) Close() error { return nil }

// stream answers with sent, then err; without err it goes silent.
func stream(mediaType string, sent []byte, err error, header ...string) func(*http.Request) (*http.Response, error) {
	return sending(http.StatusOK, func(ctx context.Context) io.ReadCloser {
		return &cut{bytes.NewReader(sent), err, ctx}
	}, append([]string{"Content-Type", mediaType}, header...)...)
}

var errReset = &url.Error{Op: "Get", URL: "http://wired", Err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}

// watcher opens watches of Pods.
type watcher func(rest.Interface, *memory) (*gentype.Client[*corev1.Pod], *wire.Specs)

func podsOf(c rest.Interface) *gentype.Client[*corev1.Pod] {
	return gentype.NewClient("pods", c, metav1.ParameterCodec, "d",
		func() *corev1.Pod { return &corev1.Pod{} }, gentype.PrefersProtobuf[*corev1.Pod]())
}

func plain(c rest.Interface, _ *memory) (*gentype.Client[*corev1.Pod], *wire.Specs) {
	return podsOf(c), nil
}

func leavingOut(c rest.Interface, m *memory) (*gentype.Client[*corev1.Pod], *wire.Specs) {
	kind, _ := wire.KindOf(podType)
	specs := wire.NewSpecs(kind, m.known)
	through, why := specs.Through(c)
	if why != "" {
		panic(why)
	}
	return podsOf(through), specs
}

// play opens a watch of the server and reads it to its end.
func (s server) play(t *testing.T, config rest.Config, open watcher) (seen *transcript, m *memory, why string) {
	t.Helper()
	seen, m = &transcript{}, newMemory()
	synctest.Test(t, func(t *testing.T) {
		config.Host, config.QPS, config.WarningHandlerWithContext = "http://wired", -1, seen
		config.Transport = &played{s, time.Now(), seen}
		clientset, err := kubernetes.NewForConfig(&config)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), transcriptKey{}, seen), time.Hour)
		defer cancel()
		began := time.Now()
		client, specs := open(clientset.CoreV1().RESTClient(), m)
		w, err := client.Watch(ctx, metav1.ListOptions{
			ResourceVersion: "7", AllowWatchBookmarks: true, SendInitialEvents: new(true), TimeoutSeconds: new(int64(300)),
		})
		if err != nil {
			seen.Err = fmt.Sprintf("%T %v", err, err)
			seen.Took = time.Since(began)
			return
		}
		for e := range w.ResultChan() {
			if o, ok := e.Object.(wire.Object); ok && specs != nil {
				e.Object, err = m.take(specs, o)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			}
			text, err := json.Marshal(e.Object)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			if len(text) > 1000 {
				text = text[len(text)-1000:]
			}
			seen.Events = append(seen.Events, fmt.Sprintf("%s %T %s", e.Type, e.Object, text))
		}
		w.Stop()
		seen.Took = time.Since(began)
		if specs != nil {
			why = specs.Why()
		}
	})
	return seen, m, why
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

// around returns two events of an object, and one between that has been read
// before the second is.
func around(o *corev1.Pod) []watch.Event {
	both := modified(o, o)
	return []watch.Event{both[0], bookmarked("5"), both[1]}
}

// A conformance is a server, and what there is to see of it besides being the same.
type conformance struct {
	name   string
	server server
	config rest.Config
	left   bool   // some specs are left out
	why    string // none are
	events int
}

func conformances() []conformance {
	events := modified(pod("1", "x", "Pending"), pod("2", "x", "Running"), pod("3", "y", "Running"), pod("4", "y", "Failed"))
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
		{name: "a connection that ends thrice", server: server{failing(io.EOF), failing(io.ErrUnexpectedEOF), failing(io.EOF), ok}, left: true, events: most},
		{name: "connections that end", server: server{failing(io.EOF)}},
		{name: "a reset", server: server{failing(errReset), ok}, left: true, events: most},
		{name: "resets", server: server{failing(errReset)}},
		{name: "a timeout", server: server{failing(context.DeadlineExceeded), ok}, left: true, events: most},
		{name: "refused", server: server{failing(refused)}},
		{name: "no trust", server: server{failing(errors.New("x509: certificate signed by unknown authority"))}},
		{name: "401", server: server{status(401, `{"kind":"Status","apiVersion":"v1","code":401,"reason":"Unauthorized"}`, "Content-Type", "application/json")}},
		{name: "403 in text", server: server{status(403, "no", "Content-Type", "text/plain")}},
		{name: "404", server: server{status(404, "404 page not found\n")}},
		{name: "410", server: server{status(410, string(text), "Content-Type", "application/json")}},
		{name: "429 with Retry-After", server: server{status(429, "slow", "Retry-After", "3"), status(429, "slow", "Retry-After", "120"), ok}, left: true, events: most},
		{name: "429 for ever", server: server{status(429, "slow", "Retry-After", "3")}},
		{name: "429 without Retry-After", server: server{status(429, "slow")}},
		{name: "500", server: server{status(500, "oh")}},
		{name: "503 with Retry-After", server: server{status(503, "oh", "Retry-After", "1"), failing(io.EOF), ok}, left: true, events: most},
		{name: "redirected", server: server{status(307, "", "Location", "http://other/path"), ok}, left: true, events: most},
		{name: "204", server: server{status(204, "")}},
		{name: "warnings", server: server{stream(watched, sent, io.EOF, "Warning", `299 - "old"`, "Warning", `299 - "bad"`)}, left: true, events: most},
		{name: "an expired version", server: server{stream(watched, protobuf(bookmarked("3"), watch.Event{Type: watch.Error, Object: gone}), io.EOF)}, events: 2},
		{name: "a body that is reset", server: server{stream(watched, sent[:len(sent)-5], errReset.Err)}, left: true, events: most - 1},
		{name: "a body that fails", server: server{stream(watched, sent[:len(sent)-5], errors.New("oh"))}, left: true, events: most},
		{name: "a body that is not complete", server: server{stream(watched, sent, io.ErrUnexpectedEOF)}, left: true, events: most},
		{name: "no body", server: server{stream(watched, nil, io.EOF)}},
		{name: "the client's timeout", server: server{stream(watched, sent, nil)}, config: rest.Config{Timeout: 5 * time.Second}, left: true, events: most},
		{name: "the end of the context", server: server{stream(watched, sent, nil)}, left: true, events: most},
		{name: "cut in a length", server: server{stream(watched, append(slices.Clone(sent), 0, 0), io.EOF)}, left: true, events: most},
		{name: "a frame of 1 MB", server: server{stream(watched, protobuf(around(large(1<<20))...), io.EOF)}, left: true, events: 3},
		{name: "a frame as large as is looked into", server: server{stream(watched, protobuf(around(large(wire.MaxFrame))...), io.EOF)}, events: 3},
		{name: "a frame too large for the client", server: server{stream(watched, protobuf(modified(pod("1", "x", ""), large(17<<20))...), io.EOF)}, events: 2},
		{name: "a frame of 2 GB", server: server{stream(watched, []byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3}, io.EOF)}},
		{name: "an empty frame", server: server{stream(watched, framed(nil), io.EOF)}, events: 1},
		{name: "no magic", server: server{stream(watched, bytes.Replace(whole, []byte("k8s\x00"), []byte("k9s\x00"), 1), io.EOF)}, events: 1},
		{name: "not protobuf", server: server{stream(watched, framed([]byte{0xff, 0xff}), io.EOF)}},
		{name: "no known type", server: server{stream(watched, bytes.Replace(whole, []byte("MODIFIED"), []byte("MORPHING"), 1), io.EOF)}, events: 1},
		{name: "another kind", server: server{stream(watched, protobuf(watch.Event{Type: watch.Added, Object: &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "x"}}}), io.EOF)}, events: 1},
		{name: "JSON", server: server{stream("application/json", in(runtime.ContentTypeJSON), io.EOF)}, events: most, why: `the server sends "application/json"`},
		{name: "JSON, asked for", server: server{stream("application/json", in(runtime.ContentTypeJSON), io.EOF)}, config: rest.Config{ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, events: most, why: `the server sends "application/json"`},
		{name: "half of JSON", server: server{stream("application/json", []byte(`{"type":"ADDED","obj`), io.EOF)}, why: `the server sends "application/json"`},
		{name: "JSON too large", server: server{stream("application/json", wiretest.Bytes(runtime.ContentTypeJSON, modified(large(17<<20))...), io.EOF)}, events: 1, why: `the server sends "application/json"`},
		{name: "JSON that is called protobuf", server: server{stream(watched, in(runtime.ContentTypeJSON), io.EOF)}},
		{name: "CBOR", server: server{stream("application/cbor-seq", []byte{0xa1, 0x64}, io.EOF)}},
		{name: "no media type", server: server{stream("", in(runtime.ContentTypeJSON), io.EOF)}, events: most, why: `the server sends ""`},
		{name: "an unknown media type", server: server{stream("text/html; charset=utf-8", []byte("<html>"), io.EOF)}},
		{name: "not decompressed", server: server{stream(watched, zipped.Bytes(), io.EOF, "Content-Encoding", "gzip")}, why: `the server sends content encoded with "gzip"`},
	}
	for n := 1; n < 8; n++ { // of a length, a frame, a body
		all = append(all, conformance{
			name:   fmt.Sprintf("%d bytes of a frame", n*len(whole)/8),
			server: server{stream(watched, whole[:n*len(whole)/8], io.EOF)},
		})
	}
	return all
}

// Whatever a server does, both watches are the same: when it is asked what, what
// is counted, what the reader gets, and when it ends.
func TestAWatchThatLeavesOutSpecsIsRequestWatch(t *testing.T) {
	for _, c := range conformances() {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			theirs, _, _ := c.server.play(t, c.config, plain)
			ours, m, why := c.server.play(t, c.config, leavingOut)
			g.Expect(ours).To(Equal(theirs))
			g.Expect(theirs.Requests).NotTo(BeEmpty())
			g.Expect(theirs.Metrics).NotTo(BeEmpty())
			g.Expect(theirs.Events).To(HaveLen(c.events))
			g.Expect(m.left > 0).To(Equal(c.left))
			g.Expect(why).To(Equal(c.why))
		})
	}
}

func TestACompressedWatchIsRead(t *testing.T) {
	g := NewWithT(t)
	sent := protobuf(around(pod("1", "x", "Pending"))...)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", watched)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(sent)
		_ = z.Close()
	}))
	defer listener.Close()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: listener.URL})
	g.Expect(err).NotTo(HaveOccurred())
	m := newMemory()
	client, specs := leavingOut(clientset.CoreV1().RESTClient(), m)
	w, err := client.Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var phases []corev1.PodPhase
	for e := range w.ResultChan() {
		o, err := m.take(specs, e.Object.(wire.Object))
		g.Expect(err).NotTo(HaveOccurred())
		phases = append(phases, o.(*corev1.Pod).Status.Phase)
	}
	g.Expect(phases).To(Equal([]corev1.PodPhase{"Pending", "", "Pending"}))
	g.Expect(m.left).To(Equal(1))
	g.Expect(specs.Why()).To(BeEmpty())
}

// gates are client-go's, with CBOR.
type gates struct{ clientfeatures.Gates }

func (g gates) Enabled(f clientfeatures.Feature) bool {
	return f == clientfeatures.ClientsAllowCBOR || g.Gates.Enabled(f)
}

func TestClientsThatAreNotKnownAreLeftAlone(t *testing.T) {
	g := NewWithT(t)
	kind, _ := wire.KindOf(podType)
	specs := wire.NewSpecs(kind, newMemory().known)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired"})
	g.Expect(err).NotTo(HaveOccurred())
	client := clientset.CoreV1().RESTClient()
	for _, unknown := range []rest.Interface{nil, (*rest.RESTClient)(nil), struct{ rest.Interface }{client}} {
		_, why := specs.Through(unknown)
		g.Expect(why).To(HavePrefix("the client sends its requests with a"))
	}
	before := clientfeatures.FeatureGates()
	defer clientfeatures.ReplaceFeatureGates(before)
	clientfeatures.ReplaceFeatureGates(gates{before})
	_, why := specs.Through(client)
	g.Expect(why).To(Equal("the client may speak CBOR"))
}

// A client-go whose RESTClient has something that must not be copied is not known.
func TestOnlyWhatMayBeCopiedIsCopied(t *testing.T) {
	g := NewWithT(t)
	g.Expect(wire.Copyable(reflect.TypeFor[rest.RESTClient]())).To(BeTrue())
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct{ n atomic.Int64 }](), reflect.TypeFor[struct{ locks [2]struct{ sync.Mutex } }](),
		reflect.TypeFor[struct{ once sync.Once }](), reflect.TypeFor[struct{ group sync.WaitGroup }](),
	} {
		g.Expect(wire.Copyable(typ)).To(BeFalse(), typ.String())
	}
}

func TestTheClientIsNotChanged(t *testing.T) {
	g := NewWithT(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://wired"})
	g.Expect(err).NotTo(HaveOccurred())
	client := clientset.CoreV1().RESTClient().(*rest.RESTClient)
	of, transport := client.Client, client.Client.Transport
	leavingOut(client, newMemory())
	g.Expect(client.Client).To(BeIdenticalTo(of))
	g.Expect(client.Client.Transport).To(BeIdenticalTo(transport))
}
