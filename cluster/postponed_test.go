package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// postponing answers every request with this status and body, and asks the
// client to wait for so many seconds.
type postponing struct {
	status            int
	contentType, body string
	seconds           int
}

func (p postponing) answer(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: p.status, Request: req, Body: io.NopCloser(strings.NewReader(p.body)),
		Header: http.Header{"Content-Type": {p.contentType}, "Retry-After": {fmt.Sprint(p.seconds)}},
	}
}

// slowDown is how an API server passes on the refusal of a webhook.
var slowDown = postponing{http.StatusTooManyRequests, "application/json", `{"kind":"Status","apiVersion":"v1",` +
	`"status":"Failure","message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":30},"code":429}`, 30}

// client-go would repeat each of the four requests for five minutes, and hold
// all four workers meanwhile.
func TestAnAnswerThatAsksForADelayHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := NewWithT(t), t.Context()
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		user := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("d")
		start := time.Now()
		var mu sync.Mutex
		var tries []string
		config := sim.Config("controller")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport(func(req *http.Request) (*http.Response, error) {
				if req.Method != http.MethodPatch || !strings.Contains(req.URL.Path, "/slow-") {
					return next.RoundTrip(req)
				}
				if strings.HasSuffix(req.URL.Path, "/slow-0") {
					mu.Lock()
					defer mu.Unlock()
					tries = append(tries, time.Since(start).String())
				}
				return slowDown.answer(req), nil
			})
		})
		c, err := cluster.New(config, nil)
		g.Expect(err).NotTo(HaveOccurred())
		create := func(name string) {
			_, err := user.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		for n := range 4 {
			create(fmt.Sprint("slow-", n))
		}
		maps := informer.For(c.Client().CoreV1().ConfigMaps("d"), nil)
		controller, err := reconcile.New("c", maps, reconcile.Func[*corev1.ConfigMap](
			func(ctx context.Context, r request) (result, error) {
				cached, ok := r.Object()
				if !ok {
					return result{}, nil
				}
				_, err := patch.Merge(ctx, c.Client().CoreV1().ConfigMaps, cached, nil, func(m *corev1.ConfigMap) {
					m.Data = map[string]string{"seen": "true"}
				})
				return result{}, err
			}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(run) }()
		<-time.After(10 * time.Second)
		create("fast")
		<-time.After(time.Second)
		fast, err := user.Get(ctx, "fast", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(fast.Data).NotTo(BeEmpty())
		<-time.After(80 * time.Second)
		mu.Lock()
		g.Expect(tries).To(Equal([]string{"0s", "30s", "1m0s", "1m30s"}))
		mu.Unlock()
		asked := time.Now()
		stop()
		g.Expect(<-ended).To(Succeed())
		g.Expect(time.Since(asked)).To(BeNumerically("<", time.Second))
	})
}

func TestADelayIsInTheErrorOfTheRequest(t *testing.T) {
	inReconcile := func(ctx context.Context) context.Context { return ownwrites.NewContext(ctx, &reconciling{}) }
	anywhere := func(ctx context.Context) context.Context { return ctx }
	page := "<html>back at noon"
	for name, c := range map[string]struct {
		answer  postponing
		in      func(context.Context) context.Context
		tries   int
		seconds int
		text    string
	}{
		"a Status with the delay": {slowDown, inReconcile, 1, 30, "slow down"},
		"a Status without it": {postponing{500, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
			`"message":"no etcd","reason":"InternalError","code":500}`, 7}, inReconcile, 1, 7, "no etcd"},
		"a server that stops":       {postponing{429, "text/plain", "The apiserver is shutting down\n", 5}, inReconcile, 1, 5, "shutting down"},
		"a page":                    {postponing{503, "text/html", page, 20}, inReconcile, 1, 20, page},
		"a page that asks for more": {postponing{503, "text/html", page, 86400}, inReconcile, 1, 60, page},
		"an empty answer":           {postponing{503, "text/plain", "", 20}, inReconcile, 1, 20, ""},
		"flow control":              {postponing{429, "text/plain", "Too many requests", 1}, inReconcile, 11, 1, "too many requests"},
		"outside of a reconcile":    {slowDown, anywhere, 11, 30, "slow down"},
		"a success":                 {postponing{200, "application/json", pod, 30}, inReconcile, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, tries := NewWithT(t), 0
				reached, err := cluster.New(&rest.Config{Host: "http://server", Transport: transport(
					func(req *http.Request) (*http.Response, error) {
						tries++
						return c.answer.answer(req), nil
					},
				)}, nil)
				g.Expect(err).NotTo(HaveOccurred())
				clients := reached.Client().CoreV1().Pods("d")
				for _, send := range []func(context.Context) error{
					func(ctx context.Context) error {
						_, err := clients.Patch(ctx, "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
						return err
					},
					func(ctx context.Context) error {
						_, err := clients.Get(ctx, "a", metav1.GetOptions{})
						return err
					},
					func(ctx context.Context) error { // a subresource of its own
						_, err := clients.UpdateResize(ctx, "a", &corev1.Pod{}, metav1.UpdateOptions{})
						return err
					},
				} {
					tries = 0
					err := send(c.in(t.Context()))
					g.Expect(tries).To(Equal(c.tries))
					seconds, _ := apierrors.SuggestsClientDelay(err)
					g.Expect(seconds).To(Equal(c.seconds))
					if c.seconds == 0 {
						g.Expect(err).NotTo(HaveOccurred())
						continue
					}
					var status apierrors.APIStatus
					g.Expect(err).To(BeAssignableToTypeOf(&apierrors.StatusError{}))
					g.Expect(err).To(Satisfy(func(err error) bool { status = err.(apierrors.APIStatus); return true }))
					g.Expect(status.Status().Code).To(BeEquivalentTo(c.answer.status))
					g.Expect(fmt.Sprint(err, status.Status().Details.Causes)).To(ContainSubstring(c.text))
				}
			})
		})
	}
}
