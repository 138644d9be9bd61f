package main

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTimesOfRulesAreShortenedAndNothingElse(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shortened("- expr: rate(x[5m]) > 600\n  for: 2m\n  summary: half an hour\n")).
		To(Equal("- expr: rate(x[60s]) > 600\n  for: 24s\n  summary: half an hour\n"))
	g.Expect(shortened("last_over_time(x[6h])\nfor: 0m")).To(Equal("last_over_time(x[4320s])\nfor: 0s"))
}

func TestAPageShowsWhatWasSilent(t *testing.T) {
	g := NewWithT(t)
	text := page([]report{
		{
			name: "a", does: "it breaks", alert: "Alert: text", after: 90 * time.Second,
			line: "dial 127.0.0.1:80 | <error>", page: "[!] b", healed: time.Second,
		},
		{name: "b", does: "nobody hears"},
	})
	g.Expect(text).To(And(
		ContainSubstring("| **a**: it breaks | Alert: text | 1m30s | dial … \\| &lt;error> | [!] b | 1s |\n"),
		ContainSubstring("| **b**: nobody hears |   |  |   |   | 0s |\n")))
}
