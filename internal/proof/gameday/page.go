package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// page returns the text of docs/gameday.md.
func page(seen []report) string {
	var b strings.Builder
	b.WriteString("# Game day\n\nWhat the person on call sees. `make gameday` runs two replicas of " +
		"[mirror](../examples/mirror) on a real API server, with a real Prometheus and the rules of " +
		"[examples/monitoring](../examples/monitoring/alerts.yaml), lets these things go wrong, and " +
		"writes this page. Rules wait for a fifth of their times; the times below are those of the " +
		"rules. A cell that is empty was silent.\n\n| incident | alert | after | last error in the log " +
		"| /readyz | well again after |\n|---|---|---|---|---|---|\n")
	for _, r := range seen {
		after := ""
		if r.alert != "" {
			after = r.after.Round(time.Second).String()
		}
		fmt.Fprintf(&b, "| **%s**: %s | %s | %s | %s | %s | %s |\n", r.name, r.does, cell(r.alert), after, cell(r.line),
			cell(r.page), r.healed.Round(time.Second))
	}
	b.WriteString("\n\"After\" counts from the moment at which it breaks; \"well again\" from the moment at which " +
		"a person mends it until each copy has a new value, both replicas are ready and no alert fires. " +
		"One node that does not come back is silent, because the other replica takes over: its Pod is " +
		"the Deployment's to replace. The clock is not changed: a proxy shows the replicas a " +
		"certificate of next year, which is what a clock that is behind sees. A slow server and a " +
		"connection that swallows packets are made by the same proxy, and the full disk by etcd's own " +
		"alarm.\n")
	return b.String()
}

// varying matches parts of a message that differ from run to run: addresses,
// and the parameters of requests.
var varying = regexp.MustCompile(`127\.0\.0\.1:\d+|\?\w+=[^"]*`)

// cell returns a text as a cell of a table.
func cell(text string) string {
	const most = 320
	text = varying.ReplaceAllString(text, "…")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	text = strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "_", "\\_", "*", "\\*").Replace(text)
	return cmp.Or(text, " ")
}
