package event_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/homeostat/homeostat/internal/event"
)

func TestANoteIsCutOnARune(t *testing.T) {
	g := NewWithT(t)
	g.Expect(event.Note(strings.Repeat("a", 1024))).To(Equal(strings.Repeat("a", 1024)))
	g.Expect(event.Note(strings.Repeat("a", 1025))).To(Equal(strings.Repeat("a", 1021) + "…"))
	for shift := range 4 {
		note := event.Note(strings.Repeat("a", shift) + strings.Repeat("😀", 500))
		g.Expect(utf8.ValidString(note)).To(BeTrue())
		g.Expect(len(note)).To(And(BeNumerically("<=", 1024), BeNumerically(">", 1020)))
		g.Expect(note).To(HaveSuffix("😀…"))
	}
	g.Expect(event.Note("broken \xff")).To(Equal("broken \uFFFD"))
	g.Expect(event.Note(strings.Repeat("\xff", 3000))).To(Equal("\uFFFD"), "a run of broken bytes is one rune")
}

func TestAnEventIsMadeFit(t *testing.T) {
	g := NewWithT(t)
	long := &eventsv1.Event{
		Reason: strings.Repeat("r", 200), Action: strings.Repeat("ä", 100), Note: strings.Repeat("n", 2000),
		ReportingInstance: "operator-" + strings.Repeat("h", 253),
	}
	fit := event.Fit(long)
	g.Expect(fit.Reason).To(Equal(strings.Repeat("r", 128)))
	g.Expect(fit.Action).To(Equal(strings.Repeat("ä", 64)))
	g.Expect(fit.Note).To(HaveLen(1024))
	g.Expect(fit.ReportingInstance).To(And(HaveLen(128), HavePrefix("operator-h")))
	g.Expect(long.Note).To(HaveLen(2000), "the original is its owner's")

	short := &eventsv1.Event{Reason: "Ended", Action: "End", Note: "the end", ReportingInstance: "a-b"}
	g.Expect(event.Fit(short)).To(Equal(short))
	g.Expect(event.Fit(&eventsv1.Event{Reason: "Ended"}).Action).To(Equal("Ended"))
	g.Expect(event.Fit(&eventsv1.Event{}).Reason).To(Equal("Unknown"))
}
