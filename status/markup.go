package status

import (
	"bytes"
	"cmp"
	_ "embed" // the style
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"
)

// literal is HTML in this package's source. A string that is known only at run
// time does not convert to it implicitly.
type literal string

// markup writes HTML. Text that is not from this package is escaped by
// construction, since it can be added only as an argument of add.
//
// html/template would escape it as well. But that package calls methods by
// name, and a program that can do so keeps all methods of all types that it
// links. That costs 16 MB in a program with client-go.
type markup struct{ buf bytes.Buffer }

// add writes format, in which %s and %d are replaced by args. They may be used
// in text and in attributes with double quotes, but not elsewhere. Every
// argument is escaped.
func (m *markup) add(format literal, args ...any) {
	escaped := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case int, int64, uint64:
			escaped[i] = arg
		default:
			escaped[i] = html.EscapeString(strings.ToValidUTF8(fmt.Sprint(arg), "\uFFFD"))
		}
	}
	fmt.Fprintf(&m.buf, string(format), escaped...)
}

//go:embed page.css
var pageStyle literal

// begin writes the head of a page. If refresh is not 0, browsers reload the
// page after that many seconds.
func (m *markup) begin(title string, refresh int) {
	m.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	if refresh > 0 {
		m.add(`<meta http-equiv="refresh" content="%d">`+"\n", refresh)
	}
	m.add("<title>%s</title>\n<style>", title)
	m.buf.WriteString(string(pageStyle)) // its digest is in the policy
	m.add("</style>\n</head>\n<body>\n")
}

// pace writes how often the page refreshes itself, with a link that pauses or
// resumes this. base is the address to which the link adds its parameter.
func (m *markup) pace(base string, refresh int) {
	if refresh > 0 {
		m.add(`refreshes every %d s · <a href="%s">pause</a>`, refresh, base+"refresh=0")
	} else {
		m.add(`<a href="%s">resume</a>`, base+"refresh="+strconv.Itoa(int(defaultRefresh.Seconds())))
	}
}

// badge writes a short highlighted text. class is good or bad.
func (m *markup) badge(class, text string) { m.add(`<span class="badge %s">%s</span>`, class, text) }

// table begins a table of names and values.
func (m *markup) table(caption string) {
	m.add("<table>\n<caption>%s</caption>\n<tbody>", caption)
}

// endTable ends a table.
func (m *markup) endTable() { m.add("</tbody>\n</table>\n") }

// fact writes a row with a name and a value.
func (m *markup) fact(name string, value any) {
	m.add("<tr><td>%s</td><td>%s</td></tr>", name, fmt.Sprint(value))
}

// cell writes a table cell. The cell carries its label, because narrow windows
// show rows as lists.
func (m *markup) cell(label string, value any) {
	m.add(`<td data-label="%s"><div>%s</div></td>`+"\n", label, cmp.Or(fmt.Sprint(value), "–"))
}

// causes writes the first causes of a key, one on each line, and the number of
// the others.
func (m *markup) causes(causes []causeReport) {
	for _, c := range causes[:min(len(causes), maxCauses)] {
		m.add("<div>%s</div>", cause(c))
	}
	switch hidden := len(causes) - maxCauses; {
	case len(causes) == 0:
		m.add("–")
	case hidden > 0:
		m.add("<div>and %d more</div>", hidden)
	}
}

// pageTime is the layout of the time at which a page was made. It names the
// clock, because a reader compares pages of several replicas, whose clocks may
// differ.
const pageTime = "2006-01-02 15:04:05 MST by the clock of this replica"

// age formats how long ago moment was, such as "2m3s ago".
func age(now, moment time.Time) string { return rounded(now.Sub(moment)) + " ago" }

// state describes the state of a key in words.
func state(now time.Time, k *keyReport) string {
	switch {
	case k.State == standby:
		return "waits until this replica leads"
	case k.State == "resting":
		return "gave up; waiting for a change"
	case k.State == "held" && k.Readded:
		return "running for " + rounded(now.Sub(k.Since)) + ", added again"
	case k.State == "held":
		return "running for " + rounded(now.Sub(k.Since))
	case k.State == "waiting":
		return "waiting for " + rounded(now.Sub(k.Since)) + " in lane " + k.Lane
	case k.Backoff:
		return "backing off: retried in " + rounded(k.Next.Sub(now))
	case k.OnHold:
		return "held back until its writes are seen, for " + rounded(k.Next.Sub(now)) + " at most"
	default:
		return "reconciled in " + rounded(k.Next.Sub(now))
	}
}

// scope describes which objects an informer watches, such as "namespace
// default; labels app=web".
func scope(i informerReport) string {
	var parts []string
	switch len(i.Namespaces) {
	case 0:
	case 1:
		parts = append(parts, "namespace "+i.Namespaces[0])
	default:
		parts = append(parts, "namespaces "+strings.Join(i.Namespaces, ", "))
	}
	if i.LabelSelector != "" {
		parts = append(parts, "labels "+i.LabelSelector)
	}
	if i.FieldSelector != "" {
		parts = append(parts, "fields "+i.FieldSelector)
	}
	if i.MetadataOnly {
		parts = append(parts, "metadata only")
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, "; ")
}

// condition returns "synced", with the last error of the informer if there was
// one, or the reason why the informer is not synced.
func condition(i informerReport) string {
	switch {
	case !i.Synced:
		return i.Reason
	case i.LastError != "":
		return "synced; last error: " + i.LastError
	default:
		return "synced"
	}
}

// watching returns the number of watches of an informer, and the counts of
// their problems.
func watching(now time.Time, i *informerReport) string {
	text := strconv.FormatInt(i.Watches, 10)
	if !i.WatchSince.IsZero() {
		text += ", open for " + rounded(now.Sub(i.WatchSince))
	}
	if i.Stalls > 0 {
		text += fmt.Sprintf(", %d stalled", i.Stalls)
	}
	if i.Restores > 0 {
		text += fmt.Sprintf(", server restored %d times", i.Restores)
	}
	if i.Failures > 0 {
		text += fmt.Sprintf(", %d failures", i.Failures)
	}
	return text
}

// size formats a number of bytes with a suitable unit, such as 1.5 MiB.
func size(bytes int64) string {
	value, units := float64(bytes), []string{"KiB", "MiB", "GiB"}
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	for value /= 1 << 10; value >= 1<<10 && len(units) > 1; value /= 1 << 10 {
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// slot describes a slot on the page, such as "elsewhere, pod-1, for 2m3s, 12.5
// % of the objects".
func slot(now time.Time, s slotReport) string {
	text := s.State
	if s.Owner != "" {
		text += ", " + s.Owner
	}
	if !s.Since.IsZero() {
		text += ", for " + rounded(now.Sub(s.Since))
	}
	if s.Weight > 0 {
		text += fmt.Sprintf(", %.1f %% of the objects", 100*s.Weight)
	}
	return text
}

// span formats a number of seconds as a rounded duration, such as 2m3s.
func span(seconds float64) string { return rounded(time.Duration(seconds * float64(time.Second))) }

// rounded formats a duration as people need it: in milliseconds below a second,
// in tenths of a second below a minute, and otherwise in seconds. A negative
// duration becomes 0s.
func rounded(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	default:
		return d.Round(time.Second).String()
	}
}

// cause describes a cause in words, for example "pods: updated d/web 12→14
// (+2)".
func cause(c causeReport) string {
	text := c.Trigger + ": " + c.Type + " " + title(c.Namespace, c.Name)
	if c.OldVersion != "" || c.NewVersion != "" {
		text += fmt.Sprintf(" %s→%s", c.OldVersion, c.NewVersion)
	}
	if c.Merged > 0 {
		text += fmt.Sprintf(" (+%d)", c.Merged)
	}
	return text
}

// title returns namespace/name, or the name of an object without a namespace.
func title(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// maxCauses is how many causes of a key the page shows.
const maxCauses = 3
