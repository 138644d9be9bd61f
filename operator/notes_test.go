package operator_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/operator"
)

// eventLog is a server that keeps Events, by their notes.
type eventLog struct {
	*WithT

	mu      sync.Mutex // guards the fields below
	names   map[string]string
	notes   []string
	actions map[string]bool
	counts  map[string]int32 // of series
}

func (l *eventLog) answer(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	l.Expect(err).NotTo(HaveOccurred())
	var e eventsv1.Event
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPost {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &e)
		l.Expect(err).NotTo(HaveOccurred())
		l.notes, l.actions[e.Action], l.names[e.Name] = append(l.notes, e.Note), true, e.Note
	} else {
		l.Expect(json.Unmarshal(body, &e)).To(Succeed())
		name := r.URL.Path[len("/apis/events.k8s.io/v1/namespaces/d/events/"):]
		l.Expect(l.names).To(HaveKey(name))
		l.counts[l.names[name]] = e.Series.Count
		e.Name = name
	}
	e.Kind, e.APIVersion = "Event", "events.k8s.io/v1"
	answer, err := json.Marshal(e)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(answer)),
	}, err
}

// record gives f a recorder and returns what the server has got afterwards.
func record(t *testing.T, f func(r events.EventRecorder, pod *corev1.Pod)) *eventLog {
	l := &eventLog{WithT: NewWithT(t), names: map[string]string{}, actions: map[string]bool{}, counts: map[string]int32{}}
	c, err := cluster.New(&rest.Config{Host: "http://server", Transport: roundTrip(l.answer)}, nil)
	l.Expect(err).NotTo(HaveOccurred())
	recorder, stop, err := operator.Recorder(t.Context(), c, "test")
	l.Expect(err).NotTo(HaveOccurred())
	f(recorder, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "1", ResourceVersion: "5"}})
	stop()
	return l
}

// client-go takes two Events that differ only in their notes for one series, and
// drops the second note.
func TestADifferentNoteIsAnEventOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := record(t, func(r events.EventRecorder, pod *corev1.Pod) {
			for i := range 3 {
				r.Eventf(pod, nil, corev1.EventTypeNormal, "Progress", "Copy", "%d of 3", i+1)
				<-time.After(10 * time.Second)
			}
			for _, note := range []string{"image not found", "quota exceeded", "quota exceeded", "quota exceeded"} {
				r.Eventf(pod, nil, corev1.EventTypeWarning, "Failed", "", note)
				<-time.After(time.Minute)
			}
			<-time.After(12 * time.Minute)
		})
		l.Expect(l.notes).To(Equal([]string{"1 of 3", "2 of 3", "3 of 3", "image not found", "quota exceeded"}))
		l.Expect(l.actions).To(Equal(map[string]bool{"Copy": true, "Failed": true}), "without a mark")
		l.Expect(l.counts).To(Equal(map[string]int32{"quota exceeded": 3}))
	})
}

// A note may contain a time, and then differs in each reconcile.
func TestNotesThatAlwaysDifferAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := record(t, func(r events.EventRecorder, pod *corev1.Pod) {
			for i := range 300 {
				r.Eventf(pod, nil, corev1.EventTypeNormal, "Copied", "Copy", "it took %d ms", i)
				<-time.After(time.Second)
			}
		})
		l.Expect(l.notes).To(HaveLen(11))
		l.Expect(l.notes[10]).To(Equal("it took 10 ms"))
		l.Expect(l.counts).To(HaveLen(1))
	})
}

// A note that differs in each retry is sent ten times, and then rarely.
func TestNotesThatAlwaysDifferAreRareLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := record(t, func(r events.EventRecorder, pod *corev1.Pod) {
			for i := range 6 * 60 {
				r.Eventf(pod, nil, corev1.EventTypeWarning, "Failed", "Retry", "try %d failed", i)
				<-time.After(10 * time.Second)
			}
			<-time.After(7 * time.Minute)
			r.Eventf(pod, nil, corev1.EventTypeWarning, "Failed", "Retry", "quota exceeded")
		})
		l.Expect(len(l.notes)).To(BeNumerically("~", 22, 3), "%v", l.notes)
		l.Expect(l.notes).To(ContainElement("quota exceeded"))
	})
}
