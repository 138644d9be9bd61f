package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// evidence contains the texts that the person on call can see one minute after
// the alert, by file name. The minute is divided by scale, like all times in
// the rules.
type evidence map[string]string

// lastLines is the number of lines at the end of each log that are kept as
// evidence.
const lastLines = 30

// gather returns the current evidence: the alerts, the probes, the page and the
// log of each replica, and the outputs of the runbook's commands.
func (w *world) gather(ctx context.Context) evidence {
	alerts := alertsText(w.alerts(ctx))
	w.observeAll(ctx)
	seen := w.ask(ctx)
	seen["alerts.txt"] = alerts
	for _, r := range w.replicas {
		livez, err := get(ctx, "http://"+r.address+"/livez", "")
		seen["livez-"+r.identity+".txt"] = textOr(livez, err)
		short, err := get(ctx, "http://"+r.address+"/readyz", "")
		seen["readyz-short-"+r.identity+".txt"] = textOr(short, err)
		readyz, err := get(ctx, "http://"+r.address+"/readyz?verbose", "")
		seen["readyz-"+r.identity+".txt"] = textOr(readyz, err)
		page, err := get(ctx, "http://"+r.address+"/debug/homeostat?keys=20", w.reader)
		seen["page-"+r.identity+".txt"] = textOr(readable(page), err)
		seen["date -u on "+r.node+".txt"] = r.date()
		log, previous := r.logs()
		seen["log-"+r.identity+".txt"] = tail(log)
		if previous != "" {
			seen["log-"+r.identity+"-previous.txt"] = tail(previous)
		}
	}
	return seen
}

var (
	unread = regexp.MustCompile(`(?s)<(head|svg|form)\b.*?</(head|svg|form)>`)
	breaks = regexp.MustCompile(`</(h\d|p|div|dd|dt|tr|table|caption|section)>\s*`)
	cells  = regexp.MustCompile(`(</div>)?</t[dh]>\s*`)
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\n\s*\n+`)
)

// readable returns the text of a page as its reader sees it, without drawings.
func readable(page string) string {
	page = unread.ReplaceAllString(page, "")
	page = cells.ReplaceAllString(page, " | ")
	page = breaks.ReplaceAllString(page, "\n")
	return html.UnescapeString(blanks.ReplaceAllString(tags.ReplaceAllString(page, ""), "\n"))
}

// textOr returns text or, if err is not nil, a text that contains err.
func textOr(text string, err error) string {
	if err != nil {
		return "no answer: " + err.Error() + "\n"
	}
	return text
}

func tail(text string) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[max(0, len(lines)-lastLines):], "")
}

// save creates the folder, and writes the texts as files into it.
func (e evidence) save(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documents
		return err
	}
	var errs []error
	for file, text := range e {
		errs = append(errs, save(filepath.Join(folder, file), text))
	}
	return errors.Join(errs...)
}

// alert is an alert of Prometheus.
type alert struct {
	State               string
	ActiveAt            time.Time
	Labels, Annotations map[string]string
}

func (a *alert) name() string { return a.Labels["alertname"] }

// alerts returns the firing alerts, the most severe ones first.
func (w *world) alerts(ctx context.Context) []alert {
	active, _ := w.activeAlerts(ctx) // the callers that wait for an alert ask again
	firing := slices.DeleteFunc(active, func(a alert) bool { return a.State != "firing" })
	slices.SortStableFunc(firing, func(a, b alert) int {
		if order := strings.Compare(a.Labels["severity"], b.Labels["severity"]); order != 0 {
			return order // "critical" is before "warning"
		}
		return strings.Compare(a.name()+a.Annotations["summary"], b.name()+b.Annotations["summary"])
	})
	return firing
}

// activeAlerts returns the alerts that are firing or pending.
func (w *world) activeAlerts(ctx context.Context) ([]alert, error) {
	text, err := get(ctx, "http://"+w.prometheus.address+"/api/v1/alerts", "")
	var answer struct{ Data struct{ Alerts []alert } }
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return answer.Data.Alerts, err
}

// calm waits until no alert is firing or pending.
func (w *world) calm(ctx context.Context) error {
	return eventually(ctx, func() error {
		active, err := w.activeAlerts(ctx)
		if err == nil && len(active) > 0 {
			err = fmt.Errorf("alert %s is %s", active[0].name(), active[0].State)
		}
		return err
	})
}

// alertsText returns the alerts as a message to the person on call.
func alertsText(alerts []alert) string {
	var b strings.Builder
	for _, a := range alerts {
		fmt.Fprintf(&b, "%s (firing)\n", a.name())
		for _, label := range slices.Sorted(maps.Keys(a.Labels)) {
			fmt.Fprintf(&b, "  %s: %s\n", label, a.Labels[label])
		}
		for _, annotation := range []string{"summary", "description", "runbook_url"} {
			fmt.Fprintf(&b, "%s: %s\n", annotation, a.Annotations[annotation])
		}
		b.WriteString("\n")
	}
	if len(alerts) == 0 {
		return "no alert fires\n"
	}
	return b.String()
}

// allowReader creates the account that may read the page.
func (w *world) allowReader(ctx context.Context) error {
	reader, err := w.ServiceAccount(ctx, e2e.ServiceAccount{
		Namespace: "default", Name: "reader", ClusterRules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/homeostat", "/debug/homeostat/*"}},
		},
	})
	if err == nil {
		w.reader = reader.BearerToken
	}
	return err
}

// get requests url with the token, and returns the body of the answer, even if
// the status is an error.
func get(ctx context.Context, url, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
