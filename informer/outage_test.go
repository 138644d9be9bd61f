package informer_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/informer"
)

// changing is a server that answers the first streaming list, and ends its
// watch after five seconds. Afterwards the function that was set last answers.
type changing struct {
	mu   sync.Mutex // guards next
	next transportFunc
}

func (l *changing) set(next transportFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
}

func (l *changing) answer(_ int, r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	next := l.next
	l.mu.Unlock()
	return next(r)
}

// open answers a watch with a stream that delivers no event, and a list without
// objects.
func open(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return answered(r, http.StatusOK, runtime.ContentTypeJSON,
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"}}`), nil
	}
	answer := answered(r, http.StatusOK, runtime.ContentTypeProtobuf, "")
	answer.Body = io.NopCloser(ending{r.Context()})
	return answer, nil
}

// notFound is what a server answers for a version of a kind that it does not
// serve.
func notFound(r *http.Request) (*http.Response, error) {
	return answered(r, http.StatusNotFound, "text/plain", "404 page not found\n"), nil
}

// page answers as a proxy does whose session store is down, or which does not
// know this address.
func page(status int) transportFunc {
	return func(r *http.Request) (*http.Response, error) {
		return answered(r, status, "text/html", "<html>Please log in</html>"), nil
	}
}

// onlyLists answers lists, and refuses watches.
func onlyLists(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" {
		return refusing(http.StatusForbidden, metav1.StatusReasonForbidden)(r)
	}
	return open(r)
}

// endingAtOnce opens watches that end with an error event.
func endingAtOnce(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return open(r)
	}
	return answered(r, http.StatusOK, runtime.ContentTypeJSON, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",`+
		`"status":"Failure","message":"the storage is away","code":500}}`+"\n"), nil
}

// closingAtOnce opens watches that end without an event. For example, a proxy
// may limit how long an answer takes.
func closingAtOnce(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return open(r)
	}
	return answered(r, http.StatusOK, runtime.ContentTypeProtobuf, ""), nil
}

const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}`

// expiring lists, and opens watches and streaming lists that end with status
// 410.
func expiring(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return open(r)
	}
	return answered(r, http.StatusOK, runtime.ContentTypeJSON, `{"type":"ERROR","object":`+expired+"}\n"), nil
}

// expiringWithoutStreams is like expiring, but the server cannot stream lists.
func expiringWithoutStreams(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		return refusing(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(r)
	}
	return expiring(r)
}

var outages = map[string]transportFunc{
	"Unauthorized": refusing(http.StatusUnauthorized, metav1.StatusReasonUnauthorized),
	"Forbidden":    refusing(http.StatusForbidden, metav1.StatusReasonForbidden),
	"not served":   notFound,

	"foreign answer (login page)": page(http.StatusUnauthorized),
	"foreign answer (firewall)":   page(http.StatusForbidden),

	"unreachable":         failing(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
	"no answer":           silent,
	"throttled":           refusing(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	"certificate":         failing(x509.UnknownAuthorityError{}),
	"server error":        refusing(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	"failed":              failing(errors.New("odd")),
	"watch ends at once":  endingAtOnce,
	"Forbidden (watches)": onlyLists,

	"watch ends at once (closed)":          closingAtOnce,
	"watch ends at once (410)":             expiring,
	"watch ends at once (410, no streams)": expiringWithoutStreams,
}

// beginning runs an informer of Pods on a server whose first watch ends after
// five seconds.
func beginning(t *testing.T, next transportFunc, f func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &changing{next: next}
		in := podsOf(t, (&begun{began: time.Now(), next: server.answer}).RoundTrip)
		defer running(t.Context(), in)()
		f(NewWithT(t), server, in)
	})
}

func TestAnInformerWhoseWatchHasFailedForAMinuteHasAProblem(t *testing.T) {
	for name, next := range outages {
		t.Run(name, func(t *testing.T) {
			beginning(t, next, func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod]) {
				<-time.After(59 * time.Second)
				g.Expect(pods.Status().Problems).To(BeEmpty(), "a short outage is nothing to tell of")
				<-time.After(4 * time.Minute)
				synctest.Wait()
				s := pods.Status()
				g.Expect(s.Synced).To(BeTrue(), "the cache still serves")
				g.Expect(s.Problems).To(HaveLen(1))
				cause, _, _ := strings.Cut(name, " (")
				g.Expect(s.Problems[0].Cause).To(Equal(cause))
				g.Expect(s.Problems[0].Reason).NotTo(BeEmpty())
				if name == "watch ends at once" {
					g.Expect(s.Problems[0].Reason).To(ContainSubstring("the storage is away"), "what the error event says")
				}
				waitsOnly := cause == "server error" || cause == "failed"
				if waitsOnly {
					g.Expect(s.Problems[0].Remedy).To(BeEmpty())
				} else {
					g.Expect(s.Problems[0].Remedy).NotTo(BeEmpty(), "where to look")
				}
				g.Expect(time.Since(s.Problems[0].Since)).To(BeNumerically(">", 3*time.Minute))
				g.Expect(s.UnauthorizedSince.IsZero()).To(Equal(cause != "Unauthorized"))

				server.set(open)
				<-time.After(2 * time.Minute)
				g.Expect(pods.Status().Problems).To(BeEmpty(), "it heals by itself")
				g.Expect(pods.Status().UnauthorizedSince).To(BeZero())
			})
		})
	}
}

// waiting answers each watch by asking to wait. The trace is what a real
// transport calls.
func waiting(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GetConn("away:443")
	trace.GotFirstResponseByte()
	answer, err := refusing(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)(r)
	answer.Header.Set("Retry-After", "60")
	return answer, err
}

// client-go waits inside of the call, for ten minutes in all.
func TestAWatchThatTheServerThrottlesIsNamed(t *testing.T) {
	beginning(t, waiting, func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod]) {
		<-time.After(2 * time.Minute)
		synctest.Wait()
		g.Expect(pods.Status().Problems).To(HaveLen(1))
		problem := pods.Status().Problems[0]
		g.Expect(problem.Cause).To(Equal("throttled"))
		g.Expect(problem.Reason).To(ContainSubstring("with a Retry-After header"))
		g.Expect(problem.Remedy).NotTo(BeEmpty())
		<-time.After(time.Hour)
		g.Expect(pods.Status().Problems[0].Cause).To(Equal("throttled"))
		server.set(open)
		<-time.After(3 * time.Minute)
		g.Expect(pods.Status().Problems).To(BeEmpty(), "it heals by itself")
	})
}

// A server that is starting refuses all clients for a moment.
func TestA401CountsFromItsOwnBeginning(t *testing.T) {
	beginning(t, outages["unreachable"], func(g *WithT, server *changing, pods *informer.Informer[*corev1.Pod]) {
		<-time.After(time.Hour)
		g.Expect(pods.Status().UnauthorizedSince).To(BeZero())
		server.set(outages["Unauthorized"])
		<-time.After(2 * time.Minute)
		s := pods.Status()
		g.Expect(time.Since(s.UnauthorizedSince)).To(BeNumerically("<=", 2*time.Minute))
		g.Expect(time.Since(s.Problems[0].Since)).To(BeNumerically(">", time.Hour-time.Minute))
		server.set(outages["unreachable"])
		<-time.After(2 * time.Minute)
		g.Expect(pods.Status().UnauthorizedSince).To(BeZero())
	})
}

// If the server has never accepted the credentials, WaitForSync says so. A
// restart of the program would not help.
func TestA401BeforeTheFirstListDoesNotMeanThatCredentialsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := podsOf(t, outages["Unauthorized"])
		defer running(t.Context(), in)()
		<-time.After(time.Hour)
		s := in.Status()
		g.Expect(s.Synced).To(BeFalse())
		g.Expect(s.UnauthorizedSince).To(BeZero())
		g.Expect(s.Problems).To(BeEmpty(), "Reason says it")
	})
}

// The reflector itself sends such a list again without a pause.
func TestAStreamingListThatBreaksOffIsReplacedByAPlainOne(t *testing.T) {
	g, most := NewWithT(t), 200
	asked := asks(t, time.Minute, func(n int, r *http.Request) (*http.Response, error) {
		if n > most {
			return open(r)
		}
		return expiring(r)
	})
	g.Expect(len(asked)).To(BeNumerically("<", most/2), "%v", asked[:min(20, len(asked))])
	g.Expect(slices.ContainsFunc(asked, func(a string) bool { return strings.HasSuffix(a, " list") })).To(BeTrue())
}
