package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

func TestTimesOfRulesAreShortenedAndNothingElse(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shortened("- expr: rate(x[5m]) > 600\n  for: 2m\n  summary: half an hour\n")).
		To(Equal("- expr: rate(x[60s]) > 600\n  for: 24s\n  summary: half an hour\n"))
	g.Expect(shortened("last_over_time(x[6h])\nfor: 0m")).To(Equal("last_over_time(x[4320s])\nfor: 0s"))
}

var played = []incident{
	{name: "a b", effect: "it breaks", object: "a thing"},
	{name: "b", effect: "no alert fires", object: "another"},
	{name: "c", object: "a third"},
	{name: "d", object: "a fourth"},
}

func TestAPageShowsWhatWasSilentAndWhatWasNotPlayed(t *testing.T) {
	g := NewWithT(t)
	fired := alert{
		Labels:      map[string]string{"alertname": "HomeostatGone", "severity": "critical"},
		Annotations: map[string]string{"summary": "It is gone.", "description": "Look."},
	}
	seen := []report{
		{
			Name: "a b", Played: time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC), Commit: "0123abc", Alerts: []alert{fired},
			After: 90 * time.Second, Lines: []string{"dial 127.0.0.1:80 | <error>"}, Page: []string{"[!] b"}, Healed: time.Second,
			Place: 2,
		},
		{Name: "b", Commit: "4567def", Place: 1},
		{Name: "c", Commit: "4567def", Failure: "never well"},
		{Name: "of the past", Place: 3},
	}
	g.Expect(page(played, seen)).To(And(
		ContainSubstring("| [a b](#a-b) | a thing | [HomeostatGone](operating.md#homeostatgone) | critical | 1m30s | 1s | 0123abc |\n"),
		ContainSubstring("| [b](#b) | another | no alert |   |   | 0s | 4567def |\n"),
		ContainSubstring("| [c](#c) | a third | no alert |   |   | never well | 4567def |\n"),
		ContainSubstring("| d | a fourth | not played |   |   |   |   |\n"),
		ContainSubstring("The object is a thing. Played on 2026-11-27 with commit 0123abc.\n\n"+
			"* alert HomeostatGone, critical: It is gone. Look.\n* /readyz: [!] b\n* log: dial … | &lt;error>\n\n## b"),
		Not(ContainSubstring("## d")), Not(ContainSubstring("of the past"))))
	g.Expect(key(played, seen)).To(HaveSuffix("|\n| 01 | b | no alert fires | another |\n| 02 | a b | it breaks | a thing |\n"))
}

func TestAResultReplacesTheLastOneOfItsIncidentOnly(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	o := outputs{
		results: filepath.Join(folder, "results.jsonl"), folders: filepath.Join(folder, "folders"), commit: "first",
		runbook: filepath.Join(folder, "runbook.md"),
	}
	g.Expect(save(o.runbook, "# Alerts\n\n### A\n\nLook.\n\n#### More\n\n### B\n\nAct.\n")).To(Succeed())
	fired := []alert{{Labels: map[string]string{"alertname": "A"}}}
	write := func(name string, e evidence) {
		seen, err := readResults(o.results)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = o.write(seen, &report{Name: name, Alerts: fired, evidence: e})
		g.Expect(err).NotTo(HaveOccurred())
	}
	write("fight", evidence{"old.txt": "old"})
	write("clock", evidence{"log.txt": "a line"})
	o.commit = "second"
	write("fight", evidence{"new.txt": "new"})

	seen, err := readResults(o.results)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(seen).To(HaveExactElements(
		And(HaveField("Name", "clock"), HaveField("Commit", "first")),
		And(HaveField("Name", "fight"), HaveField("Commit", "second"))))
	g.Expect(os.ReadDir(o.folders)).To(HaveLen(2))
	g.Expect(os.ReadDir(o.folder(seen[1].Place))).To(HaveExactElements(
		HaveField("Name()", "new.txt"), HaveField("Name()", "runbook.md")))
	g.Expect(os.ReadFile(filepath.Join(o.folder(seen[1].Place), "runbook.md"))).To(BeEquivalentTo("### A\n\nLook.\n\n#### More\n\n"))
	g.Expect(os.ReadFile(o.folders + "-solutions.md")).To(ContainSubstring(" | fight | "))
}

func TestOnlyIncidentsThatExistAreChosen(t *testing.T) {
	g := NewWithT(t)
	g.Expect(chosen(nil)).To(HaveLen(len(incidents)))
	one, err := chosen([]string{"fight"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(one).To(HaveLen(1))
	g.Expect(one[0].name).To(Equal("fight"))
	_, err = chosen([]string{"fights"})
	g.Expect(err).To(MatchError(`there is no incident "fights"`))
}

func TestAPageIsReadAsText(t *testing.T) {
	g := NewWithT(t)
	g.Expect(readable("<head><title>no</title></head><body>\n<h1>A &lt;b&gt;</h1>\n<svg><title>no</title></svg>\n" +
		"<table>\n<tr><td>key</td><td><div>d/a</div></td>\n</tr></table>")).To(Equal("\nA <b>\nkey | d/a | \n"))
}

func TestTheLastLinesOfALogAreKept(t *testing.T) {
	g := NewWithT(t)
	g.Expect(tail("a\nb\n")).To(Equal("a\nb\n"))
	g.Expect(tail("a\n" + strings.Repeat("b\n", 30))).To(Equal(strings.Repeat("b\n", 30)))
}

func TestARecordOfTheLogIsAText(t *testing.T) {
	g := NewWithT(t)
	g.Expect(logText(map[string]any{
		"msg": "m", "err": "e", "lease": map[string]any{"Name": "n", "Namespace": "s"}, "identity": "i",
	})).To(Equal("m; err=e; lease=s/n"))
}

func TestTheLogOfAnIncidentBeginsWithItUnlessItWasSilent(t *testing.T) {
	g := NewWithT(t)
	g.Expect(excerpt("a\nb\nc\n", len("a\nb\n"))).To(Equal("c\n"))
	g.Expect(excerpt("a\nb\nc\nd\n", len("a\nb\nc\nd\n"))).To(Equal("b\nc\nd\n"))
}

func TestAPodShowsHowItsLastProcessEndedUnlessItsNodeHasFailed(t *testing.T) {
	g := NewWithT(t)
	r := &replica{identity: "mirror-0", node: "node-0"}
	r.ended()
	s := r.status(corev1.PodStatus{}, false).ContainerStatuses[0]
	g.Expect(s.State.Waiting.Reason).To(Equal("CrashLoopBackOff"))
	g.Expect(s.LastTerminationState.Terminated.ExitCode).To(BeEquivalentTo(137))

	r = &replica{identity: "mirror-0", node: "node-0", lost: true}
	r.ended()
	s = r.status(corev1.PodStatus{}, false).ContainerStatuses[0]
	log, _ := r.logs()
	g.Expect(log).To(Equal("no answer: node-0 does not answer\n"))
	g.Expect(s.State.Running).NotTo(BeNil())
	g.Expect(s.LastTerminationState.Terminated).To(BeNil())
}

func TestTheOutputOfACommandIsInAFileOfItsName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(fileOf("kubectl get --raw /readyz?verbose")).To(Equal("kubectl get --raw readyz verbose.txt"))
	g.Expect((&world{Cluster: &e2e.Cluster{}}).run(t.Context(), "no-such-program -x")).To(Equal("not tried: no-such-program is not installed\n"))
}

func TestAClockThatCannotBeReplacedIsAnError(t *testing.T) {
	g := NewWithT(t)
	_, err := withWrongClock("func Now() Time { return other() }")
	g.Expect(err).To(MatchError(ContainSubstring("want once")))
	w := &world{folder: t.TempDir()}
	overlay, err := w.overlay(t.Context()) // of the Go release that builds the replicas
	g.Expect(err).NotTo(HaveOccurred())
	changed, err := os.ReadFile(filepath.Join(w.folder, "time.go"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(changed)).To(ContainSubstring("\tsec, nsec, mono := runtimeNow()\n\tsec += hostOffset.Load()\n"))
	g.Expect(os.ReadFile(overlay)).To(ContainSubstring("/src/time/gameday.go"))
}

func TestTheClockOfAReplicaIsANumberOfSeconds(t *testing.T) {
	g := NewWithT(t)
	r := &replica{clock: filepath.Join(t.TempDir(), "clock")}
	g.Expect(r.setClock(-2 * time.Hour)).To(Succeed())
	g.Expect(os.ReadFile(r.clock)).To(BeEquivalentTo("-7200"))
	date, err := time.Parse(time.UnixDate, strings.TrimSpace(r.date()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(time.Since(date)).To(BeNumerically("~", 2*time.Hour, time.Minute))
}
