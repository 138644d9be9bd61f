package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// page returns the text of docs/gameday.md. It contains a table of all
// incidents, and the evidence of each.
func page(seen []report) string {
	var b strings.Builder
	b.WriteString("# Game day\n\nWhat the person on call sees. `make gameday` runs two replicas of " +
		"[mirror](../examples/mirror) on a real API server, with a real Prometheus and the rules of " +
		"[examples/monitoring](../examples/monitoring/alerts.yaml), lets these things go wrong, and " +
		"writes this page. Rules wait for a fifth of their times; the times below are those of the " +
		"rules.\n\n| incident | object | first alert | severity | fires after | all is well after |\n" +
		"|---|---|---|---|---|---|\n")
	for _, r := range seen {
		name, severity, after := "no alert", " ", " "
		if len(r.alerts) > 0 {
			name, severity, after = r.alerts[0].name(), r.alerts[0].Labels["severity"], r.after.Round(time.Second).String()
			name = fmt.Sprintf("[%s](operating.md#%s)", name, strings.ToLower(name))
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s | %s |\n", r.name, anchor(r.name), r.object, name, severity, after,
			r.healed.Round(time.Second))
	}
	b.WriteString("\n\"Fires after\" counts from the moment at which it breaks until the alert fires. \"All is well " +
		"after\" counts from the moment at which a person mends it until each copy has a new value, both replicas are " +
		"ready, and no alert fires; it is in real time. The replicas are built with a copy of Go's package time, which " +
		"adds an offset to the wall clock of their machine, so durations stay right, as on a machine whose clock is set. " +
		"The certificate of next year, a slow server and a connection that swallows packets are made by a proxy, and " +
		"the full disk by etcd's own alarm. The replicas are processes of one machine; the game day writes what a " +
		"kubelet would see into the " +
		"status of their Pods and Nodes.\n\nThe texts below are complete, and are those of one minute after the first " +
		"alert. The log has three different errors at most. A part that is not there was silent.\n")
	for _, r := range seen {
		fmt.Fprintf(&b, "\n## %s\n\nWhat happens: %s. It is about %s.\n", r.name, r.does, r.object)
		for _, a := range r.alerts {
			fmt.Fprintf(&b, "\n* alert %s, %s: %s %s", a.name(), a.Labels["severity"], text(a.Annotations["summary"]),
				text(a.Annotations["description"]))
		}
		for _, line := range r.page {
			b.WriteString("\n* /readyz: " + text(line))
		}
		for _, line := range r.lines {
			b.WriteString("\n* log: " + text(line))
		}
		if len(r.alerts)+len(r.page)+len(r.lines) > 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// key returns the solution of the folders: a line for each folder, with its
// incident, the cause and the object.
func key(seen []report) string {
	sorted := slices.SortedFunc(slices.Values(seen), func(a, b report) int { return cmp.Compare(a.place, b.place) })
	var b strings.Builder
	b.WriteString("| folder | incident | cause | object |\n|---|---|---|---|\n")
	for _, r := range sorted {
		fmt.Fprintf(&b, "| %02d | %s | %s | %s |\n", r.place, r.name, r.does, r.object)
	}
	return b.String()
}

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(heading))
}

func alertNames(alerts []alert) []string {
	var names []string
	for _, a := range alerts {
		if !slices.Contains(names, a.name()) {
			names = append(names, a.name())
		}
	}
	return names
}

// varying matches the parts of a message that differ from run to run, such as
// addresses and the parameters of requests.
var varying = regexp.MustCompile(`127\.0\.0\.1:\d+|\?\w+=[^"]*`)

// text returns a message as Markdown.
func text(message string) string {
	message = varying.ReplaceAllString(message, "…")
	return strings.NewReplacer("\n", " ", "<", "&lt;", "_", "\\_", "*", "\\*").Replace(message)
}
