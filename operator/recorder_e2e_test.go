//go:build e2e

package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/operator"
)

// Events that are too long for the API server arrive, cut; also for objects
// whose names are no names of Events.
func TestE2EEventsOfAnyLengthArrive(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = server.Stop() })
	c, err := cluster.New(server.Config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	recorder, stop, err := operator.Recorder(t.Context(), c, "test")
	g.Expect(err).NotTo(HaveOccurred())
	long := strings.Repeat("ä", 2000)
	about := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1"}}
	}
	recorder.Eventf(about("note"), nil, corev1.EventTypeWarning, "Failed", "Try", "%s", long)
	recorder.Eventf(about("reason"), nil, corev1.EventTypeWarning, long, "Try", "short")
	recorder.Eventf(about("action"), nil, corev1.EventTypeWarning, "Failed", long, "short")
	recorder.Eventf(about("no-action"), nil, corev1.EventTypeWarning, "Failed", "", "short")
	recorder.Eventf(about("broken"), nil, corev1.EventTypeWarning, "Failed", "Try", "broken \xff")
	recorder.Eventf(about(strings.Repeat("n", 253)), nil, corev1.EventTypeWarning, "Failed", "Try", "short")
	recorder.Eventf(about("twice"), nil, corev1.EventTypeWarning, "Failed", "Try", "first")
	recorder.Eventf(about("twice"), nil, corev1.EventTypeWarning, "Failed", "Try", "second")
	client := kubernetes.NewForConfigOrDie(server.Config())
	g.Eventually(func(g Gomega) {
		all, err := client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Failed"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(all.Items).To(ContainElements(HaveField("Note", "first"), HaveField("Note", "second")))
	}).WithTimeout(time.Minute).Should(Succeed())
	recorder.Eventf(about("twice"), nil, corev1.EventTypeWarning, "Failed", "Try", "second")
	stop()
	arrived := map[string]string{}
	g.Eventually(func(g Gomega) {
		all, err := client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for _, e := range all.Items {
			arrived[e.Regarding.Name] = e.Note
			if e.Regarding.Name == "twice" {
				arrived[e.Note] = e.Action
				if e.Series != nil {
					arrived["count"] = fmt.Sprint(e.Note, " ", e.Series.Count)
				}
			}
		}
		g.Expect(arrived).To(And(
			HaveKey("reason"), HaveKey("action"), HaveKey("no-action"), HaveKey(strings.Repeat("n", 253)),
			HaveKeyWithValue("note", strings.Repeat("ä", 510)+"…"), HaveKeyWithValue("broken", "broken \uFFFD"),
			HaveKeyWithValue("first", "Try"), HaveKeyWithValue("second", "Try"), HaveKeyWithValue("count", "second 2"),
		))
	}).WithTimeout(time.Minute).Should(Succeed())
}
