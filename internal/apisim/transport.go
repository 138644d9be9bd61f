package apisim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// admin is the name of the client whose calls never wait for a scheduler.
const admin = "admin"

// client is a named client with its incarnations: a process and its restarts.
type client struct {
	incarnation int
	fenced      int // the highest number of a dead incarnation
}

// Config returns the configuration of a new incarnation of the named client. An
// incarnation is one process from its start to its crash. With a [Scheduler],
// its calls wait until the scheduler releases them; see [Server.Schedule].
//
// The server speaks only JSON and does not throttle. The configuration sets
// ContentType and QPS accordingly.
func (s *Server) Config(name string) *rest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[name]
	if c == nil {
		c = &client{}
		s.clients[name] = c
	}
	c.incarnation++
	return s.config(name, c.incarnation)
}

// Admin returns the administrator's configuration, for the workload and for
// assertions. Its calls are always served at once.
func (s *Server) Admin() *rest.Config { return s.config(admin, 0) }

func (s *Server) config(name string, incarnation int) *rest.Config {
	return &rest.Config{
		Host:  "http://apisim",
		QPS:   -1,
		Burst: 1,
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON,
		},
		Transport: &transport{server: s, client: name, incarnation: incarnation},
		UserAgent: name,
	}
}

// Fence kills all present incarnations of a client. Their parked and later
// calls end with context.Canceled and without effect, and their watches break.
func (s *Server) Fence(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[name]
	if c == nil {
		return
	}
	c.fenced = c.incarnation
	if s.gate != nil {
		s.gate.fence(name, c.fenced)
	}
	for _, w := range s.watches {
		if w.call.Client == name && w.call.Incarnation <= c.fenced {
			w.end(context.Canceled)
		}
	}
	s.reap()
}

func (s *Server) isFenced(c Call) bool {
	known := s.clients[c.Client]
	return known != nil && c.Incarnation <= known.fenced
}

// transport connects one incarnation of a client to the server.
type transport struct {
	server      *Server
	client      string
	incarnation int
}

// RoundTrip serves one request in the caller's goroutine.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	if resp != nil {
		resp.Request = req
		onClock(resp, t.skew())
	}
	return resp, err
}

func (t *transport) roundTrip(req *http.Request) (*http.Response, error) {
	defer closeBody(req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	api := catalogue{t.server}
	if answer, ok := api.unserved(req.URL.Path); ok {
		return respond(answer, nil), nil
	}
	if answer, ok := api.discovery(req); ok {
		return respond(answer, nil), nil
	}
	r, err := t.read(req)
	if err != nil {
		return respond(nil, err), nil
	}
	if t.client == admin {
		return t.server.answer(req.Context(), r)
	}
	return t.server.park(req.Context(), r)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

func (t *transport) read(req *http.Request) (*request, error) {
	r := &request{query: req.URL.Query(), accept: req.Header.Get("Accept")}
	r.Client, r.Incarnation = t.client, t.incarnation
	if !r.parsePath(req.Method, req.URL.Path, r.query) {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, schema.GroupResource{},
			"", "", 0, false)
	}
	if req.Body != nil {
		var err error
		if r.body, err = io.ReadAll(req.Body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	r.mediaType, _, _ = strings.Cut(req.Header.Get("Content-Type"), ";")
	if err := r.toJSON(); err != nil {
		return nil, err
	}
	r.body = shift(r.body, -t.skew())
	if takes := []string{"", runtime.ContentTypeJSON, runtime.ContentTypeYAML}; r.Verb != "patch" && r.Write() &&
		!slices.Contains(takes, r.mediaType) {
		return nil, unsupportedMedia("the body of the request was in an unknown format - accepted media types include: " +
			"application/json, application/yaml")
	}
	r.setName()
	return r, nil
}

// toJSON converts a request in YAML, protobuf or CBOR to JSON. kubectl
// sometimes sends such requests. Answers are JSON.
func (r *request) toJSON() error {
	if r.mediaType == runtime.ContentTypeYAML && len(r.body) > 0 {
		var err error
		if r.body, err = yaml.ToJSON(r.body); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if r.mediaType != runtime.ContentTypeProtobuf && !strings.Contains(r.mediaType, "cbor") {
		return nil
	}
	typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(r.body, nil, nil)
	if err == nil {
		r.body, err = json.Marshal(typed)
	}
	if err != nil {
		return unsupportedMedia("the simulated server answers in JSON and cannot decode this body: " +
			"use the configuration that Config returns, including its ContentType")
	}
	r.mediaType = runtime.ContentTypeJSON
	return nil
}

// answer serves the request now. It returns after the hooks have been called
// for a write, unless another goroutine is calling them.
func (s *Server) answer(ctx context.Context, r *request) (*http.Response, error) {
	s.mu.Lock()
	fenced := s.isFenced(r.Call)
	s.mu.Unlock()
	if fenced {
		return nil, context.Canceled
	}
	if answer := s.replied(r.Call); answer != nil {
		return answer, nil
	}
	s.mu.Lock()
	if r.Verb == "watch" {
		w, err := s.watch(ctx, r)
		s.mu.Unlock()
		s.tell(r.Call, http.StatusOK, err)
		if err != nil {
			return respond(nil, err), nil
		}
		return &http.Response{StatusCode: http.StatusOK, Header: jsonHeader(), Body: w, Proto: "HTTP/1.1"}, nil
	}
	result, err := s.serve(r)
	s.mu.Unlock()
	s.runHooks()
	resp := respond(result, err)
	s.tell(r.Call, resp.StatusCode, err)
	for _, w := range r.warnings {
		resp.Header.Add("Warning", fmt.Sprintf("299 - %q", w))
	}
	return resp, nil
}

// output is the answer of a call.
type output struct {
	code  int
	body  []byte
	media string // the content type; "" means JSON
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {runtime.ContentTypeJSON}} }

func respond(result *output, err error) *http.Response {
	header := jsonHeader()
	if err != nil {
		status := statusOf(err)
		body, _ := json.Marshal(status)
		if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
			header.Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
		}
		result = &output{code: int(status.Code), body: body}
	}
	if result.media != "" {
		header.Set("Content-Type", result.media)
	}
	return &http.Response{
		StatusCode: result.code, Header: header, Proto: "HTTP/1.1",
		ContentLength: int64(len(result.body)), Body: io.NopCloser(bytes.NewReader(result.body)),
	}
}

func statusOf(err error) metav1.Status {
	var status metav1.Status
	if known, ok := err.(apierrors.APIStatus); ok {
		status = known.Status()
	} else {
		status = apierrors.NewInternalError(err).Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

func unsupportedMedia(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: message,
	}}
}
