package status

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// maxProfile bounds how long a profile takes, which must end before
// the server cuts the answer off.
const maxProfile = answerTimeout - 5*time.Second

// profiles serves what `go tool pprof` fetches. Traces of the scheduler are left out: they cost every program 60 kB.
// net/http/pprof would serve it on http.DefaultServeMux, too, where nothing asks Options.Authorize.
type profiles struct{ busy atomic.Bool }

func (p *profiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "":
		p.list(w)
	case "profile":
		p.during(w, r, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	default:
		p.snapshot(w, r, name)
	}
}

func (p *profiles) list(w http.ResponseWriter) {
	names := []string{"profile?seconds=N"}
	for _, profile := range pprof.Profiles() {
		names = append(names, fmt.Sprintf("%s (%d)", profile.Name(), profile.Count()))
	}
	slices.Sort(names)
	header(w, "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, strings.Join(names, "\n"))
}

func (p *profiles) snapshot(w http.ResponseWriter, r *http.Request, name string) {
	profile := pprof.Lookup(name)
	if profile == nil {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	debug := number(r.URL.Query().Get("debug"), 0, 2)
	contentType := "application/octet-stream"
	if debug > 0 {
		contentType = "text/plain; charset=utf-8"
	}
	header(w, contentType)
	_ = profile.WriteTo(w, debug) // the client may have gone
}

// during records for as long as the client asks, one recording at a time.
func (p *profiles) during(w http.ResponseWriter, r *http.Request, start func() error, stop func()) {
	if p.busy.Swap(true) {
		http.Error(w, "another profile is being taken", http.StatusConflict)
		return
	}
	defer p.busy.Store(false)
	seconds := number(r.URL.Query().Get("seconds"), 10, int(maxProfile.Seconds()))
	header(w, "application/octet-stream")
	if err := start(); err != nil {
		http.Error(w, fmt.Sprintf("taking a profile: %v", err), http.StatusConflict)
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	}
}
