package informer

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestOnlyEventsCountAsWaiting(t *testing.T) {
	g := NewWithT(t)
	d := &delivery[*corev1.Pod]{counted: &counters{}}
	d.enqueue(batch[*corev1.Pod]{})
	_, since := d.count()
	g.Expect(since).To(BeZero())
	d.enqueue(batch[*corev1.Pod]{events: make([]Event[*corev1.Pod], 1)})
	_, since = d.count()
	g.Expect(since).NotTo(BeZero())
}
