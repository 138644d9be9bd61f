package operator_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/operator"
)

// roundTrip is a server of functions.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recordAndStop records n different Events against a server and stops the
// recorder. It returns how long the stop took.
func recordAndStop(t *testing.T, n int, server roundTrip) time.Duration {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://server", Transport: server}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	recorder, stop, err := operator.Recorder(t.Context(), c, "test")
	g.Expect(err).NotTo(HaveOccurred())
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: string(rune('a' + i))}}
		recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Ended", "End", "the end")
	}
	began := time.Now()
	stop()
	return time.Since(began)
}

func TestTheLastEventsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sent := make(chan string, 10)
		took := recordAndStop(t, 3, func(r *http.Request) (*http.Response, error) {
			select { // a slow server
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			sent <- r.Method
			return &http.Response{
				StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewBufferString(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)), Request: r,
			}, nil
		})
		g.Expect(sent).To(HaveLen(3))
		g.Expect(took).To(BeNumerically("~", time.Second, 200*time.Millisecond))
	})
}

func TestTheEndWaitsForEventsForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		hangs := func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		g.Expect(recordAndStop(t, 1, hangs)).To(BeNumerically("~", 5*time.Second, 200*time.Millisecond))
		g.Expect(recordAndStop(t, 0, hangs)).To(BeNumerically("<=", 200*time.Millisecond), "there is nothing to send")
	})
}

// client-go drops an Event that a server has refused, so a warning with a long
// cause would be lost.
func TestLongEventsAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var sent eventsv1.Event
		c, err := cluster.New(&rest.Config{Host: "http://server", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			g.Expect(err).NotTo(HaveOccurred())
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &sent)
			g.Expect(err).NotTo(HaveOccurred())
			return &http.Response{
				StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewBufferString(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)), Request: r,
			}, nil
		})}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		recorder, stop, err := operator.Recorder(t.Context(), c, "test")
		g.Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}}
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, strings.Repeat("r", 200), "", "%s", strings.Repeat("ü", 600))
		stop()
		g.Expect(sent.Note).To(Equal(strings.Repeat("ü", 510) + "…"))
		g.Expect(sent.Reason).To(Equal(strings.Repeat("r", 128)))
		g.Expect(sent.Action).To(Equal(sent.Reason), "a server refuses an Event without an action")
	})
}

func TestARecorderRefusesAComponentThatNoServerTakes(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://server"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, component := range []string{"", "my operator", "a/b/c", strings.Repeat("a", 64)} {
		_, _, err := operator.Recorder(t.Context(), c, component)
		g.Expect(err).To(MatchError(ContainSubstring("invalid component %q", component)))
	}
}

// The answer of a proxy or gateway is not a refusal of the Event.
func TestAnEventIsSentAgainAfterTheAnswerOfAProxy(t *testing.T) {
	pages := slices.Concat(absenttest.Pages(eventsv1.Resource("events"), "x"), absenttest.Conflicts(), absenttest.Successes(),
		[]absenttest.Page{
			{Name: "a page with status 502", ContentType: "text/html", Body: "<html>Bad Gateway</html>", Status: http.StatusBadGateway},
			{Name: "a page with status 403", ContentType: "text/html", Body: "<html>log in</html>", Status: http.StatusForbidden},
			{Name: "a page with status 413", ContentType: "text/html", Body: "<html>too large</html>", Status: http.StatusRequestEntityTooLarge},
		})
	for _, page := range pages {
		if strings.Contains(page.Body, `"details":`) || page.Name == "a Status without details" || page.Name == "an object of another kind" {
			continue // it looks like the server's
		}
		t.Run(page.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, arrived, methods := NewWithT(t), 0, ""
				began := time.Now()
				c, err := cluster.New(&rest.Config{Host: "http://server", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if methods += r.Method; time.Since(began) < 15*time.Second {
						return page.Response(r), nil
					}
					arrived++
					return &http.Response{
						StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(bytes.NewBufferString(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)), Request: r,
					}, nil
				})}, nil)
				g.Expect(err).NotTo(HaveOccurred())
				recorder, stop, err := operator.Recorder(t.Context(), c, "test")
				g.Expect(err).NotTo(HaveOccurred())
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}}
				recorder.Eventf(pod, nil, corev1.EventTypeWarning, "Ended", "End", "the end")
				<-time.After(time.Minute)
				stop()
				g.Expect(arrived).To(Equal(1), methods)
			})
		})
	}
}
