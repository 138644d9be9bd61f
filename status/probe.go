package status

import (
	"fmt"
	"net/http"
	"strings"
)

// A probe answers what findings come to: 200, or 503 with what is wrong. What is
// wrong outside of the cluster is named, too, and changes nothing else: every
// replica would be unready at once.
type probe struct {
	name string
	find func() []finding
}

func (p probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, verbose := r.URL.Query()["verbose"]
	status, result := http.StatusOK, "ok"
	var text strings.Builder
	for _, f := range p.find() {
		switch {
		case f.mild && f.err != nil:
			fmt.Fprintf(&text, "[!] %s: %s\n", f.name, oneLine(f.err.Error()))
		case f.err != nil:
			status, result = http.StatusServiceUnavailable, p.name+" failed"
			fmt.Fprintf(&text, "[-] %s: %s\n", f.name, oneLine(f.err.Error()))
		case verbose && f.note != "":
			fmt.Fprintf(&text, "[+] %s: ok, %s\n", f.name, f.note)
		case verbose:
			fmt.Fprintf(&text, "[+] %s: ok\n", f.name)
		}
	}
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s%s\n", text.String(), result) // the client may have gone
}

// oneLine keeps an error from looking like several checks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// header sets what every answer has.
func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
