package operator_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/operator"
)

// roundTrip is a server of functions.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recordAndStop records n different Events against a server and stops the recorder.
// It returns how long the stop took.
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
