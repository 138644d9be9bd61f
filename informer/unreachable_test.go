package informer_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/wire/wiretest"
)

// important returns a context whose log keeps what is logged at V(0).
func (l *logbook) important(ctx context.Context) context.Context {
	began := time.Now()
	return logr.NewContext(ctx, funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, fmt.Sprintf("%s %s", time.Since(began), args))
	}, funcr.Options{}))
}

// podsOf returns an informer of Pods that asks server.
func podsOf(t *testing.T, server transportFunc) *informer.Informer[*corev1.Pod] {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://away", Transport: server, QPS: -1})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return informer.For(client.CoreV1().Pods(""), nil)
}

func failing(err error) transportFunc {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func refusing(code int, reason metav1.StatusReason) transportFunc {
	return func(r *http.Request) (*http.Response, error) {
		const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"it is %[2]s"}`
		return answered(r, code, "application/json", fmt.Sprintf(body, code, reason)), nil
	}
}

func answered(r *http.Request, code int, mediaType, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {mediaType}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// silent never answers.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAServerThatCannotBeReachedIsLoggedAtOnce(t *testing.T) {
	for cause, server := range map[string]transportFunc{
		"connection refused":            failing(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
		"unknown authority":             failing(x509.UnknownAuthorityError{}),
		"no such host":                  failing(&net.DNSError{Err: "no such host", Name: "away"}),
		"Unauthorized":                  refusing(http.StatusUnauthorized, metav1.StatusReasonUnauthorized),
		"Forbidden":                     refusing(http.StatusForbidden, metav1.StatusReasonForbidden),
		"no answer from the server yet": silent,
		"no answer from the server ye":  failing(io.EOF), // it is asked again, inside of client-go
	} {
		t.Run(cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				logs := &logbook{}
				stop := running(logs.important(t.Context()), podsOf(t, server))
				defer stop()
				<-time.After(2 * time.Second)
				synctest.Wait()
				g.Expect(logs.matching(cause)).NotTo(BeEmpty(), "%v", logs.lines)
				g.Expect(logs.matching(cause)[0]).To(And(ContainSubstring("the first list"), ContainSubstring("informer")))

				<-time.After(time.Hour)
				synctest.Wait()
				g.Expect(len(logs.matching(cause))).To(BeNumerically("<=", 25), "%v", logs.lines)
				g.Expect(len(logs.matching(cause))).To(BeNumerically(">=", 4), "%v", logs.lines)
			})
		})
	}
}

func TestAnotherProblemIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var mu sync.Mutex
		server := failing(syscall.ECONNREFUSED)
		logs := &logbook{}
		stop := running(logs.important(t.Context()), podsOf(t, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			return server(r)
		}))
		defer stop()
		<-time.After(10 * time.Minute)
		mu.Lock()
		server = refusing(http.StatusForbidden, metav1.StatusReasonForbidden)
		mu.Unlock()
		<-time.After(time.Minute) // the longest back-off
		synctest.Wait()
		g.Expect(logs.matching("Forbidden")).NotTo(BeEmpty())
	})
}

// begun is a server that answers the first streaming list with all objects, and
// ends the watch after five seconds. next answers all later requests. begun
// records the requests.
type begun struct {
	mu    sync.Mutex // guards asked
	asked []string
	began time.Time
	next  func(n int, r *http.Request) (*http.Response, error)
}

func (b *begun) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	what := "list"
	if q.Get("watch") != "" {
		what = "watch " + q.Get("resourceVersion")
	}
	if q.Get("sendInitialEvents") != "" {
		what = "stream"
	}
	b.mu.Lock()
	n := len(b.asked)
	b.asked = append(b.asked, time.Since(b.began).Truncate(time.Second).String()+" "+what)
	b.mu.Unlock()
	if n > 0 {
		return b.next(n, r)
	}
	answer := answered(r, http.StatusOK, runtime.ContentTypeProtobuf, "")
	end := watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "10", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	context.AfterFunc(ctx, cancel)
	list := bytes.NewReader(wiretest.Bytes(runtime.ContentTypeProtobuf, end))
	answer.Body = io.NopCloser(io.MultiReader(list, ending{ctx}))
	return answer, nil
}

// ending is a body that ends with a context.
type ending struct{ ctx context.Context } //nolint:containedctx // of a request

func (e ending) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, io.EOF
}

// asks runs an informer for a while and returns its requests.
func asks(
	t *testing.T, during time.Duration, next func(n int, r *http.Request) (*http.Response, error),
) (asked []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &begun{began: time.Now(), next: next}
		stop := running(t.Context(), podsOf(t, server.RoundTrip))
		<-time.After(during)
		stop()
		asked = server.asked
	})
	return asked
}

// Only a time limit ends a request that is not answered. Until then the cache
// may differ from the server.
func TestAWatchThatIsNotAnsweredIsOpenedAgain(t *testing.T) {
	g := NewWithT(t)
	asked := asks(t, 100*time.Second, func(_ int, r *http.Request) (*http.Response, error) { return silent(r) })
	g.Expect(asked).To(Equal([]string{"0s stream", "5s watch 10", "35s watch 10", "1m5s watch 10", "1m35s watch 10"}))
}

func TestAListThatIsNotAnsweredIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var asked []string
		began := time.Now()
		stop := running(t.Context(), podsOf(t, func(r *http.Request) (*http.Response, error) {
			asked = append(asked, time.Since(began).Truncate(time.Second).String()+" "+r.URL.Query().Get("sendInitialEvents"))
			return silent(r)
		}))
		<-time.After(6 * time.Minute)
		stop()
		g.Expect(asked[:2]).To(Equal([]string{"0s true", "30s "}), "a plain list may be possible")
		g.Expect(asked[2]).To(HavePrefix("5m3"))
	})
}

// A large list over a slow connection counts as answered when its first byte
// arrives. Its answers have 10, 20, 40 and 80 minutes.
func TestAListMayTakeLongOnceItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := podsOf(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") != "" {
				return refusing(http.StatusBadRequest, metav1.StatusReasonInvalid)(r)
			}
			httptrace.ContextClientTrace(r.Context()).GotFirstResponseByte() // what a real transport calls
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return answered(r, http.StatusOK, runtime.ContentTypeJSON,
				`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"}}`), nil
		})
		defer running(t.Context(), pods)()
		began := time.Now()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("~", 130*time.Minute, 3*time.Minute))
	})
}

// A server that asks the client to wait has answered. The request is not
// repeated earlier.
func TestAServerMayAskToWaitForLongerThanItMayTake(t *testing.T) {
	g := NewWithT(t)
	asked := asks(t, 3*time.Minute, func(n int, r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context()) // what a real transport calls
		trace.GetConn("away:443")
		if n > 1 {
			return silent(r)
		}
		trace.GotFirstResponseByte()
		answer := answered(r, http.StatusTooManyRequests, "text/plain", "")
		answer.Header.Set("Retry-After", "100")
		return answer, nil
	})
	g.Expect(asked).To(Equal([]string{"0s stream", "5s watch 10", "1m45s watch 10", "2m15s watch 10", "2m45s watch 10"}))
}

func TestNilClientsAreNamed(t *testing.T) {
	g := NewWithT(t)
	const byFor, byNamespaces = "informer.For: the client is nil", "informer.ForNamespaces: "
	type client = informer.Client[*corev1.Pod, *corev1.PodList]
	nothing := func(string) typedcorev1.PodInterface { return nil }
	a := &informer.Options{Namespaces: []string{"a"}}
	for why, of := range map[string][]func() error{
		byFor: {
			fault(informer.For(client(nil), nil)),
			fault(informer.For(client(typedcorev1.PodInterface(nil)), nil)),
			fault(informer.For((*typedPods)(nil), nil)),
			fault(informer.For(informer.Untyped(dynamic.ResourceInterface(nil)), nil)),
		},
		byNamespaces + "the function": {fault(informer.ForNamespaces[client](nil, a))},
		byNamespaces + `the client of namespace "a" is nil`: {
			fault(informer.ForNamespaces(nothing, a)),
		},
	} {
		for _, run := range of {
			g.Expect(run()).To(MatchError(ContainSubstring(why)))
		}
	}
	changing := informer.ForNamespaces(nothing, nil)
	g.Expect(changing.SetNamespaces("b")).To(MatchError(ContainSubstring(`the client of namespace "b" is nil`)))
}

// typedPods is a client that may be a nil pointer.
type typedPods struct{ typedcorev1.PodInterface }

// fault returns what Run and WaitForSync say, which must not take time or
// panic.
func fault[T informer.Object](in *informer.Informer[T]) func() error {
	return func() error {
		_ = in.Status()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err, other := in.Run(ctx), in.WaitForSync(ctx)
		if errors.Unwrap(err).Error() != errors.Unwrap(other).Error() {
			return other
		}
		return err
	}
}
