package reconcile_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// hanging is a transport whose requests for the namespace b hang, in one of
// several ways, while bad is set.
type hanging struct {
	next http.RoundTripper
	how  string
	bad  *atomic.Bool
}

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if !query.Has("watch") { // otherwise the list has no pages
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		r.URL.RawQuery = query.Encode()
	}
	bad := strings.Contains(r.URL.Path, "/b/") && h.bad.Load()
	if bad && h.how == "no answer" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer, err := h.next.RoundTrip(r)
	if err != nil || !bad || !query.Has("continue") {
		return answer, err
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.ContentLength = -1
	answer.Header.Del("Content-Length")
	if h.how == "half of page 2" {
		answer.Body = &silent{Reader: bytes.NewReader(data[:len(data)/2]), done: r.Context().Done()}
		return answer, nil
	}
	<-time.After(20 * time.Second)
	answer.StatusCode = http.StatusInternalServerError
	answer.Body = io.NopCloser(strings.NewReader(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500}`))
	return answer, nil
}

// silent is a body without content, which ends only with its request.
type silent struct {
	io.Reader
	done <-chan struct{}
}

func (s *silent) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		<-s.done
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *silent) Close() error { return nil }

func TestANamespaceThatHangsStopsOnlyItself(t *testing.T) {
	for _, how := range []string{"no answer", "half of page 2", "page 2 fails slowly"} {
		for _, added := range []bool{false, true} {
			name := how + " at the start"
			if added {
				name = how + " in SetNamespaces"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { hangs(t, how, added) })
			})
		}
	}
}

func hangs(t *testing.T, how string, added bool) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{NoStreamingLists: how != "no answer"})
	g.Expect(err).NotTo(HaveOccurred())
	for _, key := range []reconcile.Key{keyIn("a", "1"), keyIn("b", "1"), keyIn("b", "2"), keyIn("b", "3")} {
		g.Expect(sim.Load(&configMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
	}
	var bad atomic.Bool
	bad.Store(true)
	config := sim.Config("c")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return hanging{next, how, &bad} })
	c, err := cluster.New(config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	o := &informer.Options{Namespaces: []string{"a", "b"}, Independent: true, PageSize: 2}
	if added {
		o.Namespaces = []string{"a"}
	}
	in := informer.ForNamespaces(c.Client().CoreV1().ConfigMaps, o)
	ran := make(chan string, 100)
	controller, err := reconcile.New("test", in, reconcile.Func[*configMap](
		func(_ context.Context, r request) (reconcile.Result, error) {
			ran <- r.Key.String()
			return nothing, nil
		}), nil)
	g.Expect(err).NotTo(HaveOccurred())
	probes, err := status.New(&status.Options{Controllers: []*reconcile.Controller{controller}})
	g.Expect(err).NotTo(HaveOccurred())
	readyz := func() string {
		w := httptest.NewRecorder()
		probes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
		g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
		return w.Body.String()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx) }()
	pass(time.Second)
	g.Expect(ran).To(Receive(Equal("a/1")), "it waits for the list of its own namespace only")
	if added {
		g.Expect(in.SetNamespaces("a", "b")).To(Succeed())
	}
	readyz()
	pass(61 * time.Second)
	for range 200 {
		g.Expect(readyz()).To(ContainSubstring(`namespace "b"`))
		pass(5 * time.Second)
	}
	g.Expect(ran).NotTo(Receive())

	bad.Store(false)
	pass(10 * time.Minute)
	g.Expect(ran).To(HaveLen(3))
	g.Expect(readyz()).NotTo(ContainSubstring(`namespace "b"`))
	stop()
	g.Expect(<-ended).To(Succeed())
}
