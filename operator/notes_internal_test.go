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
	})
}
