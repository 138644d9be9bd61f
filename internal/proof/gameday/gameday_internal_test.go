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

func TestAPageShowsWhatWasSilent(t *testing.T) {
	g := NewWithT(t)
	fired := alert{
		Labels:      map[string]string{"alertname": "HomeostatGone", "severity": "critical"},
		Annotations: map[string]string{"summary": "It is gone.", "description": "Look."},
	}
	seen := []report{
		{
			incident: incident{name: "a b", does: "it breaks", object: "a thing"}, alerts: []alert{fired},
			after: 90 * time.Second, lines: []string{"dial 127.0.0.1:80 | <error>"}, page: []string{"[!] b"}, healed: time.Second,
			place: 2,
		},
		{incident: incident{name: "b", does: "nobody hears", object: "another"}, place: 1},
	}
	g.Expect(page(seen)).To(And(
		ContainSubstring("| [a b](#a-b) | a thing | [HomeostatGone](operating.md#homeostatgone) | critical | 1m30s | 1s |\n"),
		ContainSubstring("| [b](#b) | another | no alert |   |   | 0s |\n"),
		ContainSubstring("\n\n* alert HomeostatGone, critical: It is gone. Look.\n* /readyz: [!] b\n* log: dial … | &lt;error>\n"),
		HaveSuffix("\n## b\n\nWhat happens: nobody hears. It is about another.\n")))
	g.Expect(key(seen)).To(HaveSuffix("| 01 | b | nobody hears | another |\n| 02 | a b | it breaks | a thing |\n"))
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
	g.Expect(since("a\nb\nc\n", len("a\nb\n"))).To(Equal("c\n"))
	g.Expect(since("a\nb\nc\nd\n", len("a\nb\nc\nd\n"))).To(Equal("b\nc\nd\n"))
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
