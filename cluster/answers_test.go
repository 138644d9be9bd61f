package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// reconciling is a reconcile that records the reports of the transport.
type reconciling struct {
	notes []string
}

func (*reconciling) Wrote(metav1.Object, ownwrites.Content) {}
func (*reconciling) Deleted(metav1.Object)                  {}
func (*reconciling) FieldManager() string                   { return "" }

func (r *reconciling) Sending(w ownwrites.Write) func(ownwrites.Outcome, *answer.Object) {
	r.notes = append(r.notes, fmt.Sprintf("%s %s/%s", w.Resource.String(), w.Namespace, w.Name))
	return func(o ownwrites.Outcome, object *answer.Object) {
		note := map[ownwrites.Outcome]string{
			ownwrites.Refused: "refused", ownwrites.Written: "written", ownwrites.Removed: "removed",
			ownwrites.Accepted: "accepted", ownwrites.Uncertain: "uncertain",
		}[o]
		if object != nil {
			note += fmt.Sprintf(" %s/%s %s@%s", object.Namespace, object.Name, object.UID, object.ResourceVersion)
		}
		if object != nil && object.Unlabelled {
			note += " without labels"
		}
		r.notes = append(r.notes, note)
	}
}

type transport func(req *http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// body is the body of an answer. Reading its end returns err.
type body struct {
	io.Reader
	err    error
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

var errBrokenOff = errors.New("connection reset by peer")

const (
	pods        = "/api/v1/namespaces/d/pods"
	deployments = "/apis/apps/v1/namespaces/d/deployments"
	success     = `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","uid":"u"}}`
	pod         = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"d","name":"a","uid":"u","resourceVersion":"7"}}`
	scale       = `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"namespace":"d","name":"a","uid":"u","resourceVersion":"7"}}`
)

// through sends a request through the transport of a cluster whose server
// answers with res.
func through(ctx context.Context, g *WithT, method, path string, res *http.Response) *http.Response {
	c, err := cluster.New(&rest.Config{
		Host:      "http://server",
		Transport: transport(func(*http.Request) (*http.Response, error) { return res, nil }),
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	rt, err := rest.TransportFor(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, nil)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := rt.RoundTrip(req)
	g.Expect(err).NotTo(HaveOccurred())
	return got
}

// answered sends a request with the context of a reconcile through the
// transport of a cluster, and returns the reports to the reconcile. It expects
// the body of the answer to arrive completely.
func answered(t *testing.T, method, path string, res *http.Response, in *body) []string {
	t.Helper()
	g := NewWithT(t)
	whole := &strings.Builder{}
	in.Reader = io.TeeReader(in.Reader, whole)
	res.Body = in
	var r reconciling
	got := through(ownwrites.NewContext(t.Context(), &r), g, method, path, res)
	data, err := io.ReadAll(got.Body)
	if errors.Is(in.err, io.EOF) {
		g.Expect(err).NotTo(HaveOccurred())
	} else {
		g.Expect(err).To(MatchError(in.err))
	}
	if string(data) != whole.String() { // it may be long
		t.Error("the body has changed")
	}
	g.Expect(got.Body.Close()).To(Succeed())
	g.Expect(in.closed).To(BeTrue())
	return r.notes
}

func TestAnAnswerIsReadAsFarAsNecessary(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		code         int
		body         string
		end          error
		want         string
	}{
		"an object":                {http.MethodPut, pods + "/a", 200, pod, io.EOF, "written d/a u@7"},
		"a body that breaks off":   {http.MethodPut, pods + "/a", 200, pod[:40], errBrokenOff, "uncertain d/a @ without labels"},
		"a whole body that breaks": {http.MethodPut, pods + "/a", 200, pod, errBrokenOff, "uncertain d/a @ without labels"},
		"a body that is too long": {
			http.MethodPut, pods + "/a", 200, pod + strings.Repeat(" ", answer.MaxBytes), io.EOF, "uncertain d/a @ without labels",
		},
		"a scale":             {http.MethodPut, deployments + "/a/scale", 200, scale, io.EOF, "written d/a u@7 without labels"},
		"a binding":           {http.MethodPost, pods + "/a/binding", 201, success, io.EOF, "uncertain d/a @ without labels"},
		"a delete":            {http.MethodDelete, pods + "/a", 200, success, io.EOF, "removed d/a u@ without labels"},
		"a delete that began": {http.MethodDelete, pods + "/a", 202, pod, io.EOF, "written d/a u@7"},
		"a delete, accepted":  {http.MethodDelete, pods + "/a", 202, success, io.EOF, "accepted d/a u@ without labels"},
		"a refusal":           {http.MethodPut, pods + "/a", 409, success, io.EOF, "refused"},
		"a failing server":    {http.MethodPut, pods + "/a", 500, success, io.EOF, "uncertain d/a @ without labels"},
	} {
		t.Run(name, func(t *testing.T) {
			res := &http.Response{StatusCode: c.code, Header: http.Header{"Content-Type": {"application/json"}}}
			notes := answered(t, c.method, c.path, res, &body{Reader: strings.NewReader(c.body), err: c.end})
			NewWithT(t).Expect(notes).To(HaveLen(2))
			NewWithT(t).Expect(notes[1]).To(Equal(c.want))
		})
	}
}

// The transport must not read these answers, since they may be endless.
func TestStreamsAndReadsArePassedThrough(t *testing.T) {
	for name, c := range map[string]struct{ method, path string }{
		"a watch":        {http.MethodGet, pods + "?watch=true"},
		"a log":          {http.MethodGet, pods + "/a/log?follow=true"},
		"exec":           {http.MethodPost, pods + "/a/exec?command=ls"},
		"attach":         {http.MethodPost, pods + "/a/attach"},
		"a port-forward": {http.MethodPost, pods + "/a/portforward"},
		"a proxy":        {http.MethodPut, pods + "/a/proxy/b"},
		"not an object":  {http.MethodPost, "/version"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			endless := &body{Reader: &strings.Reader{}}
			res := &http.Response{StatusCode: http.StatusOK, Body: endless, Header: http.Header{"Content-Type": {"application/json"}}}
			var r reconciling
			got := through(ownwrites.NewContext(t.Context(), &r), g, c.method, c.path, res)
			g.Expect(got.Body).To(BeIdenticalTo(endless))
			g.Expect(r.notes).To(BeEmpty())
		})
	}
}

func TestClientsAreNotThrottledUnlessAsked(t *testing.T) {
	for given, want := range map[float32]float32{0: -1, 7: 7} {
		g := NewWithT(t)
		config := &rest.Config{Host: "http://server", QPS: given}
		c, err := cluster.New(config, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Config().QPS).To(Equal(want))
		g.Expect(config.QPS).To(Equal(given), "it is not modified")
		g.Expect(config.WrapTransport).To(BeNil(), "it is not modified")
	}
}

func TestListsOfANearServerAreNotCompressed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "203.0.113.1")
	for host, near := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://[::1]:6443": true, "https://10.96.0.1": true, "192.168.0.7:6443": true,
		"https://[fd00::1]": true, "https://localhost:6443": true, "https://kubernetes.default.svc": true,
		"https://kubernetes.default.svc.cluster.local.": true, "https://203.0.113.7": false,
		"https://203.0.113.1:443": true, "https://169.254.0.1": true, "https://kubernetes": true, "https://api.example.com": false,
	} {
		g := NewWithT(t)
		for _, given := range []bool{false, true} {
			config := &rest.Config{Host: host, DisableCompression: given}
			c, err := cluster.New(config, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.Config().DisableCompression).To(Equal(near || given), host)
			g.Expect(config.DisableCompression).To(Equal(given), "it is not modified")
		}
	}
	for _, near := range []bool{true, false} { // what the transport makes of it
		g := NewWithT(t)
		asked := make(chan string, 1)
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Header.Get("Accept-Encoding")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","items":[]}`))
		}))
		config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		if !near {
			config.Host = "https://api.example.com"
			config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			}
		}
		c, err := cluster.New(config, nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Client().CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(<-asked).To(Equal(map[bool]string{true: "", false: "gzip"}[near]))
		server.Close()
	}
}
