// Package profiles serves the profiles that `go tool pprof` fetches, to the
// clients that status.Options.Authorize allows:
//
//	status.New(&status.Options{Authorize: status.Reviewed(client), Profiles: profiles.Handler()})
//
// It is a separate package because runtime/pprof adds 300 kB to a program.
// net/http/pprof would also serve the profiles on http.DefaultServeMux, and
// thus without a call of Authorize.
package profiles

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxSeconds bounds how long a profile takes. It must end before status.Serve
// cuts the answer off, after 30 seconds.
const maxSeconds = 25

// Handler returns a handler of the paths below /debug/pprof/. It serves a list,
// the profiles of runtime/pprof by name, and a CPU profile of ?seconds=N, 10 by
// default and at most 25. With ?debug=1 or ?debug=2, a profile by name is text.
// Traces of the scheduler are not served. The handler is safe for concurrent
// use.
//
// The handler answers 404 for an unknown profile, and 409 while another client
// takes a CPU profile. A CPU profile ends when its client disconnects.
func Handler() http.Handler { return &handler{} }

type handler struct{ busy atomic.Bool }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch name := strings.TrimPrefix(r.URL.Path, "/debug/pprof/"); name {
	case "":
		h.list(w)
	case "profile":
		h.record(w, r, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	default:
		h.snapshot(w, r, name)
	}
}

func (h *handler) list(w http.ResponseWriter) {
	names := []string{"profile?seconds=N"}
	for _, profile := range pprof.Profiles() {
		names = append(names, fmt.Sprintf("%s (%d)", profile.Name(), profile.Count()))
	}
	slices.Sort(names)
	header(w, "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, strings.Join(names, "\n"))
}

func (h *handler) snapshot(w http.ResponseWriter, r *http.Request, name string) {
	profile := pprof.Lookup(name)
	if profile == nil {
		http.Error(w, "the profile in the path does not exist", http.StatusNotFound)
		return
	}
	debug := number(r, "debug", 0, 2)
	contentType := "application/octet-stream"
	if debug > 0 {
		contentType = "text/plain; charset=utf-8"
	}
	header(w, contentType)
	_ = profile.WriteTo(w, debug) // the client may have disconnected
}

// record makes a recording that lasts for as many seconds as the client
// requests, 10 by default and at most maxSeconds. It ends earlier if the client
// goes away. It refuses the request during another recording.
func (h *handler) record(w http.ResponseWriter, r *http.Request, start func() error, stop func()) {
	if h.busy.Swap(true) {
		http.Error(w, "another profile is being taken", http.StatusConflict)
		return
	}
	defer h.busy.Store(false)
	seconds := number(r, "seconds", 10, maxSeconds)
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

// number returns the number in a query parameter, or limit if the number is
// larger than limit. It returns fallback if the parameter is not a non-negative
// number.
func number(r *http.Request, name string, fallback, limit int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return fallback
	}
	return min(n, limit)
}

func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
