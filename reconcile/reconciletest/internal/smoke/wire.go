package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// wire is a transport to a real server for one life of the program, or for the
// administrator. It records the requests, and can be cut.
type wire struct {
	next    http.RoundTripper
	journal *journal
	life    *life // nil for the administrator
	timeout time.Duration
}

// wired returns a configuration whose requests pass through a wire. Their
// bodies are JSON, which the wire can read.
func (j *journal) wired(config *rest.Config, l *life, timeout time.Duration) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS, c.WarningHandler = -1, rest.NoWarnings{}
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.UserAgent = "reconciletest"
	if l != nil {
		c.UserAgent = l.client
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &wire{next: next, journal: j, life: l, timeout: timeout}
	})
	return c
}

// RoundTrip passes a request on, unless the wire is cut.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.isCut() {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, context.Canceled
	}
	call, ok := apisim.ParseCall(req)
	switch {
	case !ok: // a request for the version or the resources of the server
		return w.next.RoundTrip(req)
	case call.Write():
		return w.write(req, call)
	}
	return w.read(req, call)
}

func (w *wire) isCut() bool { return w.life != nil && w.life.cut.Err() != nil }

// read passes a read on. The request ends with the caller's context, or when
// the wire is cut.
func (w *wire) read(req *http.Request, call apisim.Call) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	end := func() { cancel() }
	if w.life != nil {
		unhook := context.AfterFunc(w.life.cut, cancel)
		end = func() { unhook(); cancel() }
	}
	w.journal.read(call, w.life)
	if call.Verb == "watch" && req.URL.Query().Has("sendInitialEvents") {
		list := call
		list.Verb = "list" // where a server does not stream, the client lists
		w.journal.needs(list, w.life)
	}
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	if call.Verb == "watch" {
		w.journal.moved()
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &stream{ReadCloser: resp.Body, end: end}
	}
	return resp, nil
}

// stream is the body of an answer. It calls end when it is closed.
type stream struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

type answer struct {
	resp *http.Response
	err  error
}

// write passes a write on. It continues after the caller has given up or was
// killed, to learn the effect of the write.
func (w *wire) write(req *http.Request, call apisim.Call) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	wr := newWrite(call, w.life, body, req)
	w.journal.begin(wr)
	done := make(chan answer, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), w.timeout)
		defer cancel()
		out := req.Clone(ctx)
		out.Body = io.NopCloser(bytes.NewReader(body))
		a, body := w.send(out)
		w.journal.end(wr, a.resp, body)
		done <- a
	}()
	var cut <-chan struct{}
	if w.life != nil {
		cut = w.life.cut.Done()
	}
	select {
	case a := <-done:
		if w.isCut() {
			return nil, context.Canceled
		}
		return a.resp, a.err
	case <-cut:
		return nil, context.Canceled
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func (w *wire) send(req *http.Request) (answer, []byte) {
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		return answer{err: err}, nil
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return answer{err: err}, nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return answer{resp: resp}, body
}

// write is a write and its result.
type write struct {
	call       apisim.Call
	life       *life
	text       string // the text in the trace
	dry        bool
	oldVersion uint64 // the object's resourceVersion before the write, if it is known
	code       int
	version    uint64 // the object's resourceVersion after the write, or 0
	uid        types.UID
	created    bool
	changed    bool // the write has changed the object
	lease      lease
}

// lease is the spec of a Lease.
type lease struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
}

func newWrite(call apisim.Call, l *life, body []byte, req *http.Request) *write {
	var o metav1.PartialObjectMetadata
	if call.Verb == "create" && call.Subresource == "" && json.Unmarshal(body, &o) == nil {
		if call.Name = o.Name; o.Name == "" {
			call.Name = o.GenerateName + "*"
		}
	}
	w := &write{call: call, life: l, dry: isDry(call, body, req)}
	_, w.text, _ = strings.Cut(call.String(), " ")
	if caller := apisim.Caller(); l != nil && caller != "" {
		w.text += "   (" + caller + ")"
	}
	return w
}

// isDry reports whether the request is a dry run. Deletions have this option in
// their body.
func isDry(call apisim.Call, body []byte, req *http.Request) bool {
	var o metav1.DeleteOptions
	if strings.HasPrefix(call.Verb, "delete") && json.Unmarshal(body, &o) == nil && len(o.DryRun) > 0 {
		return true
	}
	return slices.Contains(req.URL.Query()["dryRun"], metav1.DryRunAll)
}

func (w *write) key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.call.Namespace, Name: w.call.Name}
}

// title names the object.
func (w *write) title() string {
	return w.call.Resource.GroupResource().String() + " " + strings.TrimPrefix(w.key().String(), "/")
}

// answered records the change that the write has made. It reads the change from
// the answer.
func (w *write) answered(code int, body []byte) {
	w.code = code
	if code >= http.StatusMultipleChoices || w.dry {
		return
	}
	var o struct {
		Kind     string                `json:"kind"`
		Metadata metav1.ObjectMeta     `json:"metadata"`
		Details  *metav1.StatusDetails `json:"details"`
		Items    []json.RawMessage     `json:"items"`
		Spec     lease                 `json:"spec"`
	}
	if json.Unmarshal(body, &o) != nil {
		return
	}
	w.created = code == http.StatusCreated && w.call.Subresource == "" && o.Metadata.UID != ""
	if w.created {
		w.call.Name, w.call.Namespace = o.Metadata.Name, o.Metadata.Namespace
	}
	w.uid, w.lease = o.Metadata.UID, o.Spec
	version := parseVersion(o.Metadata.ResourceVersion)
	switch {
	case w.call.Verb == "deletecollection":
		w.changed = len(o.Items) > 0
	case o.Kind == "Status":
		w.changed = true
		if o.Details != nil {
			w.uid = o.Details.UID
		}
	case version > w.oldVersion:
		w.version, w.changed = version, true
	case w.call.Verb == "delete" && o.Metadata.DeletionTimestamp == nil:
		w.changed = true // the object is deleted at once
	}
}
