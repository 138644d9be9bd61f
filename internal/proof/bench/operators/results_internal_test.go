package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestThePageKeepsTheFiguresOfOtherOperators(t *testing.T) {
	g := NewWithT(t)
	l := &laboratory{page: filepath.Join(t.TempDir(), "operators.md"), rounds: 1}
	first, second := &operators[0], &operators[1]
	g.Expect(l.keep(second, map[string]figures{released: {Rest: 111}, informer: {Rest: 222}})).To(Succeed())
	g.Expect(l.keep(first, map[string]figures{released: {Rest: 333}})).To(Succeed())
	g.Expect(l.keep(second, map[string]figures{released: {Rest: 444}, informer: {Rest: 222}})).To(Succeed())

	g.Expect(l.write()).To(Succeed())
	page, err := os.ReadFile(l.page)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).To(And(
		ContainSubstring("| "+first.Name+" "+first.Version+" | released | 0 | 333 |"),
		ContainSubstring("| "+second.Name+" "+second.Version+" | released | 0 | 444 |"),
		ContainSubstring("| "+second.Name+" "+second.Version+" | informer | 0 | 222 (0.50) |"),
		Not(ContainSubstring("111")),
		Not(ContainSubstring("| "+first.Name+" "+first.Version+" | informer |")), // it has no figures
		Not(ContainSubstring("| "+operators[2].Name+" "+operators[2].Version+" | released |")),
		Not(ContainSubstring("* "+operators[2].Name+" "+operators[2].Version+":")),
	))
}

func TestARecordThatCannotBeReadIsAnError(t *testing.T) {
	g := NewWithT(t)
	l := &laboratory{page: filepath.Join(t.TempDir(), "operators.md")}
	g.Expect(os.WriteFile(l.results(), []byte("{}\n{\n"), 0o600)).To(Succeed())
	g.Expect(l.keep(&operators[0], nil)).To(MatchError(ContainSubstring("line 2")))
	g.Expect(l.write()).To(MatchError(ContainSubstring("line 2")))
}

func TestTheMeasurementIsDescribed(t *testing.T) {
	g := NewWithT(t)
	r := result{record: record{Rounds: 1, Date: "2026-11-27"}}
	g.Expect(r.Measurement()).To(Equal("one run of each program, on 2026-11-27."))
	r.Rests, r.Changing = "10s", "5s"
	g.Expect(r.Measurement()).To(Equal(
		"one run of each program, on 2026-11-27, after 10s of rest, with changes for 5s."))
	r.Rests, r.Changing, r.Rounds, r.Load, r.Remark = "", "", 3, 1.25, "It was cold."
	r.Figures = map[string]figures{released: {Rate: 100}, informer: {Rate: 200}, onDemand: {}}
	g.Expect(r.Measurement()).To(Equal("the median of 3 runs of each program, on 2026-11-27, " +
		"100 to 200 changes in each second, at a load average of 1.2. It was cold."))
}

func TestAnUnknownOperatorIsAnError(t *testing.T) {
	g := NewWithT(t)
	_, err := choose([]string{operators[0].Name, "kueue"})
	g.Expect(err).To(MatchError(ContainSubstring(`"kueue"`)))
	g.Expect(choose(nil)).To(HaveLen(len(operators)))
	chosen, err := choose([]string{operators[1].Name})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chosen).To(HaveLen(1))
	g.Expect(chosen[0].Name).To(Equal(operators[1].Name))
}
