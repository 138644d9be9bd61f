package wire_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
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
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/metrics"

	"github.com/homeostat/homeostat/internal/wire"
)

const watched = "application/vnd.kubernetes.protobuf;stream=watch"

// A transcript records everything that can be observed of a watch.
type transcript struct {
	Requests []string // the requests, with their times
	Metrics  []string
	Warnings []string
	Err      string
	Events   []string
	Took     time.Duration
}

type transcriptKey struct{}

// counted records metrics in the transcript of their context.
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

// A server answers requests one after the other. Its last answer is used for
// all further requests.
type server []func(r *http.Request) (*http.Response, error)

// A played server records its requests.
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

func sending(
	code int, body func(ctx context.Context) io.ReadCloser, header ...string,
) func(*http.Request) (*http.Response, error) {
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

// A paced reader lets a moment pass between two frames, so that the previous
// object is taken before the next one arrives.
type paced struct {
	sent []byte
	rest int // of the current frame
}

func (r *paced) Read(p []byte) (n int, err error) {
	if len(r.sent) == 0 {
		return 0, io.EOF
	}
	if r.rest == 0 {
		<-time.After(time.Millisecond) // of the bubble
		r.rest = frameSize(r.sent)
	}
	n = copy(p[:min(len(p), r.rest)], r.sent)
	r.sent, r.rest = r.sent[n:], r.rest-n
	return n, nil
}

// stream answers with sent, then err; without err it goes silent.
func stream(mediaType string, sent []byte, err error, header ...string) func(*http.Request) (*http.Response, error) {
	return sending(http.StatusOK, func(ctx context.Context) io.ReadCloser {
		return &cut{&paced{sent: sent}, err, ctx}
	}, append([]string{"Content-Type", mediaType}, header...)...)
}

var errReset = &url.Error{
	Op: "Get", URL: "http://wired", Err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
}

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
	through, why := specs.Client(c, nil)
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
			why = specs.Reason()
		}
	})
	return seen, m, why
}

// For every behaviour of a server, both watches are the same: their requests
// and when they are sent, the metrics, the objects that the reader gets, and
// the end.
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
			left := m.left > 0
			g.Expect(left).To(Equal(c.left))
			g.Expect(why).To(Equal(c.why))
		})
	}
}

func TestACompressedWatchIsRead(t *testing.T) {
	g := NewWithT(t)
	sent := protobuf(around(pod("1", "x", "Pending"))...)
	first, taken := frameSize(sent), make(chan struct{})
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", watched)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(sent[:first])
		_ = z.Flush()
		w.(http.Flusher).Flush()
		<-taken
		_, _ = z.Write(sent[first:])
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
		if phases = append(phases, o.(*corev1.Pod).Status.Phase); len(phases) == 1 {
			close(taken)
		}
	}
	g.Expect(phases).To(Equal([]corev1.PodPhase{"Pending", "", "Pending"}))
	g.Expect(m.left).To(Equal(1))
	g.Expect(specs.Reason()).To(BeEmpty())
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
		_, why := specs.Client(unknown, nil)
		g.Expect(why).To(HavePrefix("the client sends its requests with a"))
	}
	before := clientfeatures.FeatureGates()
	defer clientfeatures.ReplaceFeatureGates(before)
	clientfeatures.ReplaceFeatureGates(gates{before})
	_, why := specs.Client(client, nil)
	g.Expect(why).To(Equal("the client may speak CBOR"))
}

// No known client-go has a RESTClient with a field that must not be copied.
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
