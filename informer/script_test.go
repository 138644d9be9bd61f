package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

// A step answers one request. The answer ends when the step returns. For
// example, drop breaks the connection, and hold waits until the client ends the
// request.
type step func(w http.ResponseWriter, r *http.Request)

// A script is a server that answers the requests of a test one by one. Requests
// after the last step are held. The request for the server's resourceVersion
// after a watch that broke off does not count as a step.
type script struct {
	mu       sync.Mutex // guards the fields below
	steps    []step
	requests []string
}

func newScript(steps ...step) *script { return &script{steps: steps} }

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if limit := query.Get("limit"); (limit == "1" || limit == "100") && query.Get("watch") == "" {
		list("1000000000")(w, r)
		return
	}
	request := "list"
	switch {
	case query.Get("sendInitialEvents") == "true":
		request = "stream"
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		request = "watch"
	}
	if version := query.Get("resourceVersion"); version != "" {
		request += " " + version
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	next := step(hold)
	if len(s.steps) > 0 {
		next, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	next(w, r)
}

// asked returns the requests so far, such as "stream" and "watch 10".
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func hold(w http.ResponseWriter, r *http.Request) {
	flush(w)
	<-r.Context().Done()
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func end(http.ResponseWriter, *http.Request) {}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

func answer(code int, body any) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
}

func refuse(code int, reason metav1.StatusReason) step {
	return answer(code, failure(code, reason))
}

func failure(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: fmt.Sprintf("refused by the script: %s", reason),
	}
}

func list(version string, items ...*corev1.Node) step {
	l := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	l.ResourceVersion = version
	for _, item := range items {
		l.Items = append(l.Items, *item)
	}
	return answer(http.StatusOK, l)
}

// stream sends events and then calls last.
func stream(last step, events ...any) step {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		flush(w)
		for _, e := range events {
			if gate, ok := e.(chan struct{}); ok {
				select {
				case <-gate:
				case <-r.Context().Done():
				}
				continue
			}
			_ = json.NewEncoder(w).Encode(e)
			flush(w)
		}
		last(w, r)
	}
}

func event(kind string, object any) any {
	return map[string]any{"type": kind, "object": object}
}

func added(n *corev1.Node) any    { return event("ADDED", n) }
func modified(n *corev1.Node) any { return event("MODIFIED", n) }
func deleted(n *corev1.Node) any  { return event("DELETED", n) }

func bookmark(version string) any { return event("BOOKMARK", versioned("", "", version)) }

// listEnd is the bookmark that ends a streaming list.
func listEnd(version string) any {
	b := versioned("", "", version)
	b.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return event("BOOKMARK", b)
}

func versioned(name, uid, version string) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version},
	}
}

// clientTo returns a client of the server at url, or of handler without any
// socket (so that it works in a synctest bubble) when url is empty.
func clientTo(url string, handler http.Handler) (client *kubernetes.Clientset, done func()) {
	transport := http.RoundTripper(inProcess{handler})
	done = func() {}
	if url != "" {
		real := &http.Transport{}
		transport, done = real, real.CloseIdleConnections
	} else {
		url = "http://script"
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url, Transport: transport, QPS: -1})
	if err != nil {
		panic(err)
	}
	return client, done
}

// inProcess carries requests to a handler through a pipe.
type inProcess struct{ handler http.Handler }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &pipeResponse{header: http.Header{}, body: writer, started: make(chan struct{})}
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
	go func() {
		defer func() {
			if recover() != nil {
				writer.CloseWithError(io.ErrUnexpectedEOF)
			}
			w.start(http.StatusOK)
			writer.Close()
		}()
		t.handler.ServeHTTP(w, r)
	}()
	select {
	case <-w.started:
		return &http.Response{StatusCode: w.code, Header: w.sent, Body: reader, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

type pipeResponse struct {
	header  http.Header
	sent    http.Header // header as it was when the answer began
	body    *io.PipeWriter
	code    int
	started chan struct{}
	once    sync.Once
}

func (w *pipeResponse) start(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.started)
	})
}

func (w *pipeResponse) Header() http.Header         { return w.header }
func (w *pipeResponse) WriteHeader(code int)        { w.start(code) }
func (w *pipeResponse) Flush()                      { w.start(http.StatusOK) }
func (w *pipeResponse) Write(p []byte) (int, error) { w.start(http.StatusOK); return w.body.Write(p) }

// A record is what a handler has heard, in order.
type record struct {
	mu   sync.Mutex // guards heard
	told []string
}

func (r *record) hear(e informer.Event[*corev1.Node]) {
	line := e.Type.String()
	if e.Initial {
		line = "known"
	}
	object := e.New
	if object == nil {
		object = e.Old
	}
	line += " " + object.Name
	if object.UID != "" {
		line += "/" + string(object.UID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, line)
}

func (r *record) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.told...)
}
