package operator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestTheNotesOfEndedSeriesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		d := &distinguishing{notes: map[topic]*topicNotes{}}
		for i := range 10 * sweepSize {
			g.Expect(d.mark(topic{reason: fmt.Sprint(i)}, "note")).To(Equal(markPrefix + "note"))
			<-time.After(time.Second)
		}
		g.Expect(len(d.notes)).To(BeNumerically("<=", sweepSize))

		for period := range 3 { // all objects of a program at once
			for i := range 5 * sweepSize {
				d.mark(topic{action: fmt.Sprint(period), reason: fmt.Sprint(i)}, "note")
			}
			<-time.After(seriesPeriod)
		}
		g.Expect(len(d.notes)).To(BeNumerically("<=", 2*5*sweepSize))
	})
}
