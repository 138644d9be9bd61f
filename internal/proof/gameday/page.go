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
// incidents, and the evidence of each incident that was played.
func page(list []incident, seen []report) string {
	var b strings.Builder
	b.WriteString("# Game day\n\nWhat the person on call sees. `make gameday` runs two replicas of " +
		"[mirror](../examples/mirror) on a real API server, with a real Prometheus and the rules of " +
		"[examples/monitoring](../examples/monitoring/alerts.yaml), lets these things go wrong, and " +
		"writes this page. Rules wait for a fifth of their times; the times below are converted to the " +
		"full times.\n\n| incident | object | first alert | severity | fires after | all is well after | commit |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, i := range list {
		b.WriteString(tableRow(i, reportOf(i, seen)))
	}
	b.WriteString("\n\"Fires after\" counts from the moment of the fault until the alert fires. \"All is well " +
		"after\" counts from the moment at which a person repairs it until each copy has a new value, both replicas are " +
		"ready, and no alert fires; it is in real time. The commit is the one whose program was played; `make gameday " +
		"INCIDENTS='\"clock ahead\" fight'` plays some incidents anew, and the rows of the others stay. " +
		"A row of an older commit has the times that were measured with that commit, and the program's and the alerts' " +
		"sentences in their words of today. " +
		"The replicas are built with a copy of Go's package time, which " +
		"adds an offset to the wall clock of their machine, so durations stay right, as on a machine whose clock is set. " +
		"The certificate of next year, a slow server and a connection that swallows packets are made by a proxy, and " +
		"the full disk by etcd's own alarm. The replicas are processes of one machine; the game day writes what a " +
		"kubelet would see into the " +
		"status of their Pods and Nodes.\n\nThe texts below are complete, as they were one minute after the first " +
		"alert. The log has at most three different errors. A part that is not there was silent.\n")
	for _, i := range list {
		if r := reportOf(i, seen); r != nil {
			fmt.Fprintf(&b, "\n## %s\n\nWhat happens: %s. The object is %s. Played on %s with commit %s.\n", i.name, i.effect,
				i.object, r.Played.Format(time.DateOnly), r.Commit)
			b.WriteString(observations(r))
		}
	}
	return b.String()
}

// tableRow returns the row of an incident in the table. r is nil if the
// incident was not played.
func tableRow(i incident, r *report) string {
	if r == nil {
		return fmt.Sprintf("| %s | %s | not played |   |   |   |   |\n", i.name, i.object)
	}
	name, severity, delay, healed := "no alert", " ", " ", r.Healed.Round(time.Second).String()
	if len(r.Alerts) > 0 {
		name, severity, delay = r.Alerts[0].name(), r.Alerts[0].Labels["severity"], r.After.Round(time.Second).String()
		name = fmt.Sprintf("[%s](operating.md#%s)", name, strings.ToLower(name))
	}
	if r.Failure != "" {
		healed = text(r.Failure)
	}
	return fmt.Sprintf("| [%s](#%s) | %s | %s | %s | %s | %s | %s |\n", i.name, anchor(i.name), i.object, name,
		severity, delay, healed, r.Commit)
}

// observations returns the list of what was seen during an incident.
func observations(r *report) string {
	var b strings.Builder
	for _, a := range r.Alerts {
		fmt.Fprintf(&b, "\n* alert %s, %s: %s %s", a.name(), a.Labels["severity"], text(a.Annotations["summary"]),
			text(a.Annotations["description"]))
	}
	for _, line := range r.Page {
		b.WriteString("\n* /readyz: " + text(line))
	}
	for _, line := range r.Lines {
		b.WriteString("\n* log: " + text(line))
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// reportOf returns the report of an incident, or nil if it was not played.
func reportOf(i incident, seen []report) *report {
	if n := slices.IndexFunc(seen, func(r report) bool { return r.Name == i.name }); n >= 0 {
		return &seen[n]
	}
	return nil
}

// key returns a table that says which incident, cause and object belong to each
// folder.
func key(known []incident, seen []report) string {
	type solution struct {
		place int
		line  string
	}
	var list []solution
	for _, i := range known {
		if r := reportOf(i, seen); r != nil && r.Place > 0 {
			line := fmt.Sprintf("| %02d | %s | %s | %s |\n", r.Place, i.name, i.effect, i.object)
			list = append(list, solution{r.Place, line})
		}
	}
	slices.SortFunc(list, func(a, b solution) int { return cmp.Compare(a.place, b.place) })
	var b strings.Builder
	b.WriteString("| folder | incident | cause | object |\n|---|---|---|---|\n")
	for _, s := range list {
		b.WriteString(s.line)
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
