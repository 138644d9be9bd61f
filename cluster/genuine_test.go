package cluster_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

// answering returns a client of package cluster whose requests are all answered
// with a page. A redirect leads to a login page.
func answering(g *WithT, code int, contentType, body string) kubernetes.Interface {
	c, err := cluster.New(&rest.Config{Host: "http://server", Transport: transport(
		func(req *http.Request) (*http.Response, error) {
			res := &http.Response{
				StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Request: req,
				ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
			}
			if body == "" {
				res.Body = nil // as transports that users put around others may do
			}
			if code == http.StatusFound && req.URL.Path != "/login" {
				res.Header.Set("Location", "/login")
			} else if code == http.StatusFound {
				res.StatusCode = http.StatusOK
			}
			return res, nil
		},
	)}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return c.Client()
}

// Without package cluster, clients return an object or an empty list for some
// of these answers, and take all of them for consent to a deletion.
func TestAnAnswerOfAProxyIsAnError(t *testing.T) {
	for name, page := range map[string]struct {
		code              int
		contentType, body string
	}{
		"a redirect to a login page":   {302, "text/html", "<html>Please log in</html>"},
		"a redirect that is an object": {302, "application/json", pod},
		"a login page":                 {200, "text/html", "<html>Please log in</html>"},
		"a text":                       {200, "text/plain", "OK"},
		"the {} of a gateway":          {200, "application/json", "{}"},
		"its health":                   {200, "application/json", `{"status":"ok","kind":"gateway"}`},
		"null":                         {200, "application/json; charset=utf-8", "null"},
		"a list of nothing":            {200, "application/json", "[]"},
		"no body":                      {200, "application/json", ""},
		"an empty body":                {200, "application/json", " "},
		"no content":                   {204, "", ""},
		"a failure with status 200":    {200, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403}`},
		"a page that claims to be CBO": {200, "application/x-cbor", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pods := answering(g, page.code, page.contentType, page.body).CoreV1().Pods
			of := MatchError(ContainSubstring("is not from the API server"))
			var r reconciling
			ctx := ownwrites.NewContext(t.Context(), &r)
			object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u"}}
			g.Expect(patch.Delete(ctx, pods, object, nil)).To(of)
			g.Expect(r.notes).To(HaveLen(2))
			g.Expect(r.notes[1]).To(HavePrefix("uncertain d/a"), "it may have been deleted nevertheless")
			g.Expect(pods("d").Delete(context.WithoutCancel(t.Context()), "a", metav1.DeleteOptions{})).To(of)
			_, err := pods("d").List(t.Context(), metav1.ListOptions{})
			g.Expect(err).To(of)
			_, err = pods("d").Get(t.Context(), "a", metav1.GetOptions{})
			g.Expect(err).To(of)
			_, err = pods("d").Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			g.Expect(err).To(of)
		})
	}
}

func encoded(g *WithT, contentType string, object runtime.Object) string {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	g.Expect(ok).To(BeTrue())
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), object)
	g.Expect(err).NotTo(HaveOccurred())
	return string(data)
}

func TestWhatServersAnswerIsNotChanged(t *testing.T) {
	for name, c := range map[string]struct{ method, path, contentType, body string }{
		"a table": {http.MethodGet, pods, "application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`},
		"a list of metrics, without a version": {
			http.MethodGet, "/apis/metrics.k8s.io/v1beta1/pods", "application/json",
			`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[]}`,
		},
		"a custom kind with a text as status": {
			http.MethodGet, "/apis/example.com/v1/widgets/a", "application/json",
			`{"kind":"Status","apiVersion":"example.com/v1","metadata":{"name":"a"},"status":"Failure"}`,
		},
		"a start of a virtual machine": {
			http.MethodPut, "/apis/subresources.kubevirt.io/v1/namespaces/d/virtualmachines/a/start", "", "",
		},
		"discovery":              {http.MethodGet, "/apis/apps/v1", "application/json", `{}`},
		"the version":            {http.MethodGet, "/version", "application/json", `{"major":"1"}`},
		"a log":                  {http.MethodGet, pods + "/a/log", "text/plain", "hello"},
		"a page of a proxy":      {http.MethodGet, pods + "/a/proxy/", "text/html", "<html>"},
		"an old path of a watch": {http.MethodGet, "/api/v1/watch/pods", "application/json", `{"type":"ADDED"}`},
		"an old path of a proxy": {http.MethodGet, "/api/v1/proxy/nodes", "text/html", "<html>"},
		"protobuf":               {http.MethodGet, pods + "/a", "application/vnd.kubernetes.protobuf", "k8s\x00"},
		"a list of what is nested deeply": {
			http.MethodGet, pods, "application/json",
			`{"items":[` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `],"kind":"PodList","apiVersion":"v1"}`,
		},
		"a large list": {
			http.MethodGet, pods, "application/json", `{"items":[` + strings.Repeat(" ", 70<<10) + `],"kind":"PodList"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			res := &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.contentType}}, ContentLength: -1,
				Body: io.NopCloser(strings.NewReader(c.body)),
			}
			got := through(t.Context(), g, c.method, c.path, res)
			data, err := io.ReadAll(got.Body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(data)).To(Equal(c.body))
		})
	}
}

// absence is the API server's answer that a Pod does not exist.
const absence = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found",` +
	`"reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}`

// Each body is a right answer of an API server, or nearly so. A proxy has sent
// a part of it, has sent it from a cache, or has changed it on the way.
func TestTheRightAnswerOfAProxyIsAnError(t *testing.T) {
	const list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"}`
	for name, c := range map[string]struct {
		path string
		code int
		age  string
		body string
		want string
	}{
		"a part of a list":             {pods, 206, "", list + `,"items":[]}`, "API servers do not answer with this status"},
		"a list that was changed":      {pods, 203, "", list + `,"items":[]}`, "API servers do not answer with this status"},
		"a list that is not ready":     {pods, 202, "", list + `,"items":[]}`, "API servers do not answer with this status"},
		"a part of an object":          {pods + "/a", 206, "", pod, "API servers do not answer with this status"},
		"a cached list":                {pods, 200, "30", list + `,"items":[]}`, "it is from a cache, and 30 seconds old"},
		"a cached object":              {pods + "/a", 200, "1", pod, "it is from a cache, and 1 seconds old"},
		"a cached absence":             {pods + "/a", 404, "30", absence, "it is from a cache, and 30 seconds old"},
		"a list without items":         {pods, 200, "", list + `}`, "it is a list without items"},
		"a list with items of its own": {pods, 200, "", list + `,"Items":[]}`, "it is a list without items"},
		// These are an API server's.
		"an absence": {pods + "/a", 404, "0", absence, ""},
		"a list":     {pods, 200, "0", list + `,"items":[]}`, ""},
		"a list of an aggregated API": {
			"/apis/example.com/v1/widgets", 200, "",
			`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{},"items":null}`, "",
		},
		"an object whose kind is a list": {
			"/apis/example.com/v1/allowlists/a", 200, "",
			`{"kind":"AllowList","apiVersion":"example.com/v1","metadata":{"name":"a"}}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			made, err := cluster.New(&rest.Config{Host: "http://server", Transport: transport(
				func(req *http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: c.code, Request: req, Body: io.NopCloser(strings.NewReader(c.body)),
						Header: http.Header{"Content-Type": {"application/json"}, "Age": {c.age}},
					}, nil
				},
			)}, nil)
			g.Expect(err).NotTo(HaveOccurred())
			err = made.Client().CoreV1().RESTClient().Get().AbsPath(c.path).Do(t.Context()).Error()
			if absent := names.IsNotFound(err, corev1.Resource("pods"), "a"); c.want != "" {
				g.Expect(err).To(MatchError(And(ContainSubstring("is not from the API server: "+c.want),
					HaveSuffix(`(status %d, content type "application/json"): perhaps a proxy or gateway has sent it`, c.code))))
				g.Expect(absent).To(BeFalse())
			} else {
				g.Expect(absent).To(Equal(c.code == http.StatusNotFound))
				g.Expect(err == nil || absent || runtime.IsNotRegisteredError(err)).To(BeTrue(), "%v", err)
			}
		})
	}
}

// A person sees whose page it is. The sender is a guess.
func TestTheErrorAboutAPageShowsItsBeginning(t *testing.T) {
	g := NewWithT(t)
	_, err := answering(g, 200, "text/html", "<html>\n  <title>Log in</title></html>").CoreV1().Pods("d").
		Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).To(MatchError(HaveSuffix(`/namespaces/d/pods/a": the answer is not from the API server: it is not JSON, protobuf or ` +
		`CBOR (status 200, content type "text/html", body "<html> <title>Log in</title></html>"): ` +
		`perhaps a proxy or gateway has sent it`)))
}

// breaking is a body that fails once, and then ends.
type breaking struct {
	io.Reader
	err    error
	closed bool
}

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n == 0 && b.err != nil {
		err, b.err = b.err, nil
	}
	return n, err
}

func (b *breaking) Close() error {
	b.closed = true
	return nil
}

// Half an answer is not taken for a whole one.
func TestAnAnswerThatBreaksOffIsAnError(t *testing.T) {
	g, reset := NewWithT(t), errors.New("reset")
	got := through(t.Context(), g, http.MethodGet, pods, &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1,
		Body: &breaking{Reader: strings.NewReader(pod), err: reset},
	})
	_, err := io.ReadAll(got.Body)
	g.Expect(err).To(MatchError(reset))
}

func TestTheBodyOfARefusedAnswerIsClosed(t *testing.T) {
	g, body := NewWithT(t), &breaking{Reader: strings.NewReader("{}")}
	c, err := cluster.New(&rest.Config{Host: "http://server", Transport: transport(
		func(req *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Request: req, Body: body, Header: http.Header{"Content-Type": {"application/json"}},
			}, nil
		},
	)}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = c.Client().CoreV1().Pods("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("is not from the API server")))
	g.Expect(body.closed).To(BeTrue(), "or its connection would be lost")
}

// A server consents to a deletion only by a Status.
func TestASuccessStatusIsNeitherAnObjectNorAList(t *testing.T) {
	g := NewWithT(t)
	pods := answering(g, http.StatusOK, "application/json", consent).CoreV1().Pods("d")
	of := MatchError(ContainSubstring("it is a Status, not an object"))
	_, err := pods.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(of)
	_, err = pods.Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).To(of)
	_, err = pods.Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	g.Expect(err).To(of)
	g.Expect(pods.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}})).To(Succeed())
}

const consent = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`

// A request that asks for compression itself gets its answer unread.
func TestAPackedAnswerIsNotChanged(t *testing.T) {
	g := NewWithT(t)
	got := through(t.Context(), g, http.MethodGet, pods, &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("packed")),
		Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
	})
	g.Expect(io.ReadAll(got.Body)).To(BeEquivalentTo("packed"))
}

// client-go waits for as long as Retry-After says, in the middle of a request.
func TestAMaintenancePageDoesNotDecideWhenToAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		began := time.Now()
		c, err := cluster.New(&rest.Config{Host: "http://server", Transport: transport(
			func(req *http.Request) (*http.Response, error) {
				res := &http.Response{
					StatusCode: http.StatusServiceUnavailable, Request: req, Body: io.NopCloser(strings.NewReader("<html>")),
					Header: http.Header{"Content-Type": {"text/html"}, "Retry-After": {"86400"}},
				}
				if time.Since(began) > 5*time.Second {
					res.StatusCode, res.Body = http.StatusOK, io.NopCloser(strings.NewReader(pod))
					res.Header = http.Header{"Content-Type": {"application/json"}}
				}
				return res, nil
			},
		)}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.Client().CoreV1().Pods("d").Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(time.Since(began)).To(BeNumerically("<=", time.Minute))
	})
}

// Rancher, kcp and kubectl proxy may serve an API server below a path.
func TestAServerBelowAPathIsReadLikeAnyOther(t *testing.T) {
	for body, want := range map[string]string{pod: "written d/a u@7", "{}": "uncertain d/a @ without labels"} {
		g := NewWithT(t)
		c, err := cluster.New(&rest.Config{Host: "https://rancher.example/k8s/clusters/c-m-1/", Transport: transport(
			func(req *http.Request) (*http.Response, error) {
				g.Expect(req.URL.Path).To(Equal("/k8s/clusters/c-m-1" + pods + "/a"))
				return &http.Response{
					StatusCode: http.StatusOK, Request: req, Body: io.NopCloser(strings.NewReader(body)),
					Header: http.Header{"Content-Type": {"application/json"}},
				}, nil
			},
		)}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		var r reconciling
		_, _ = c.Client().CoreV1().Pods("d").Patch(ownwrites.NewContext(t.Context(), &r), "a", types.MergePatchType,
			[]byte("{}"), metav1.PatchOptions{})
		g.Expect(r.notes).To(HaveLen(2))
		g.Expect(r.notes[1]).To(Equal(want))
	}
}
