package informer

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTheStatusOfSeveralWatchesIsThatOfTheOldest(t *testing.T) {
	g := NewWithT(t)
	none, first, later := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	g.Expect(earlier(none, none)).To(BeZero())
	for _, pair := range [][2]time.Time{{first, later}, {later, first}, {first, none}, {none, first}, {first, first}} {
		g.Expect(earlier(pair[0], pair[1])).To(Equal(first), "%v", pair)
	}
}
