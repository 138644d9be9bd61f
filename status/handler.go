package status

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/reconcile"
)

// New returns a handler of /livez, /readyz, /metrics, /debug/homeostat and,
// with Options.Authorize and Options.Profiles, /debug/pprof/. Other paths, and
// methods other than GET and HEAD, are refused. The handler is safe for
// concurrent use.
//
// New itself starts no goroutines. When a probe arrives, the handler calls each
// check in a goroutine that ends when the check returns. A check that is still
// running is not called again: later probes wait for the same call.
//
// New returns all mistakes in the options as one joined error.
func New(o *Options) (http.Handler, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making a status handler: %w", err)
	}
	live := checksOf(options.Controllers, controllerCheck, (*reconcile.Controller).Healthy, options.Liveness)
	ready := withLeaders(checksOf(options.Controllers, leaderCheck, options.leaderReady, options.Readiness),
		options.Controllers)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe{"livez", func() []finding {
		further := make(chan []finding, 1) // at the same time, since both may take all of a probe's time
		go func() { further <- options.credentials() }()
		return append(askAll(live), <-further...)
	}})
	checks := func() []finding { return askAll(ready) }
	mux.Handle("GET /readyz", probe{"readyz", func() []finding {
		return findingsOf(&options.Options, options.look(), checks())
	}})
	mux.Handle("GET /metrics", authorized(options.Authorize, exposition{options.Gatherer}))
	mux.Handle("GET /debug/homeostat", authorized(options.Authorize, newPage(options, checks)))
	if options.Authorize != nil && options.Profiles != nil {
		mux.Handle("GET /debug/pprof/", authorized(options.Authorize, options.Profiles))
	}
	return mux, nil
}

// authorized returns a handler that serves only requests that authorize allows.
// If authorize is nil, it returns h. The answer to a refused request does not
// contain the reason, with one exception: if the API server could not be asked,
// the answer says so. Otherwise the user would look for the reason in the
// permissions of the client.
func authorized(authorize func(*http.Request) error, h http.Handler) http.Handler {
	if authorize == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := authorize(r); {
		case err == nil:
			h.ServeHTTP(w, r)
		case errors.Is(err, ErrUnauthenticated):
			w.Header().Set("WWW-Authenticate", `Basic realm="password: a bearer token"`)
			refuse(w, http.StatusUnauthorized)
		default:
			if unknown, ok := errors.AsType[*unreviewedError](err); ok {
				http.Error(w, unknown.answer(), http.StatusServiceUnavailable)
				return
			}
			refuse(w, http.StatusForbidden)
		}
	})
}

// refuse answers with the status alone, because the reason could contain names
// that the client may not see.
func refuse(w http.ResponseWriter, status int) {
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, http.StatusText(status))
}

// exposition serves metrics in the format that the client requests.
type exposition struct{ gatherer prometheus.Gatherer }

// ServeHTTP gathers and encodes all metrics before it answers. Metrics that
// cannot be gathered, for example because two collectors have the same one, are
// left out and logged: alerts need the others. If there are no others, the
// answer is an error.
func (e exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
	var body bytes.Buffer
	err := e.encode(&body, format)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "some metrics cannot be served, leaving them out")
	}
	if err != nil && body.Len() == 0 {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header(w, string(format))
	_, _ = body.WriteTo(w) // the client may have disconnected
}

func (e exposition) encode(body *bytes.Buffer, format expfmt.Format) error {
	families, err := e.gatherer.Gather()
	if err != nil {
		err = fmt.Errorf("gathering metrics: %w", err)
	}
	encoder := expfmt.NewEncoder(body, format)
	for _, family := range families {
		whole := body.Len()
		if failure := encoder.Encode(family); failure != nil {
			body.Truncate(whole)
			err = errors.Join(err, fmt.Errorf("encoding metrics: %w", failure))
		}
	}
	return err
}

// page serves the report as HTML and as JSON.
type page struct {
	*sources
	checks func() []finding // the checks of /readyz that call other code
	policy string
}

// newPage returns the page with its Content-Security-Policy. The policy lets
// browsers load only the page's own style.
func newPage(s *sources, checks func() []finding) page {
	digest := sha256.Sum256([]byte(pageStyle))
	return page{s, checks, "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
		"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"}
}

// ServeHTTP serves the page of one key if the request names a key, and the
// overview otherwise.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asJSON, refresh := query.Get("format") == "json", number(query.Get("refresh"), int(defaultRefresh.Seconds()), 3600)
	if query.Has("key") {
		view, ok := keyViewOf(p.Controllers, query)
		switch {
		case !ok:
			http.Error(w, "the controller in the query does not exist", http.StatusNotFound)
		case asJSON:
			p.serveJSON(w, r, view)
		default:
			k := keyPage{keyView: view, refresh: refresh}
			k.render()
			p.serve(w, "text/html; charset=utf-8", &k.buf)
		}
		return
	}
	keys := number(query.Get("keys"), defaultKeys, maxKeys)
	shown := reportOf(p.sources, p.checks(), keys)
	if asJSON {
		p.serveJSON(w, r, shown)
		return
	}
	o := overview{report: shown, keys: keys, refresh: refresh}
	o.render()
	p.serve(w, "text/html; charset=utf-8", &o.buf)
}

// serveJSON answers with value as JSON.
func (p page) serveJSON(w http.ResponseWriter, r *http.Request, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		klog.FromContext(r.Context()).Error(err, "serving the page failed")
		http.Error(w, "the page could not be shown", http.StatusInternalServerError)
		return
	}
	p.serve(w, "application/json", &body)
}

// serve answers with body and with the headers of every page.
func (p page) serve(w http.ResponseWriter, contentType string, body *bytes.Buffer) {
	header(w, contentType)
	w.Header().Set("Content-Security-Policy", p.policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = body.WriteTo(w) // the client may have disconnected
}

// number parses a query parameter. It returns fallback if text is not a
// non-negative number, and limit if the number is larger than limit.
func number(text string, fallback, limit int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fallback
	}
	return min(n, limit)
}

// The timeouts of the server. stopTimeout is for requests in flight when it
// stops.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 5 * time.Second
)

// Serve serves h on address until ctx ends. Then it lets requests in flight
// finish, and returns nil after every goroutine has ended. With an empty
// address it does not listen. For example, ":8080" listens on all interfaces,
// as the kubelet needs it; other clients can then connect, too, so set
// Options.Authorize.
//
// Serve returns an error if it cannot listen on the address, if h is nil, or if
// the listener fails.
func Serve(ctx context.Context, address string, h http.Handler) error {
	if address == "" {
		<-ctx.Done()
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving status at %q: %w", address, err)
	}
	return ServeOn(ctx, listener, h)
}

// ServeOn is [Serve] with a listener. It closes the listener. For example, the
// listener may have a port that the system chose, so that the caller knows the
// address before the first answer. Requests in flight have 5 seconds after the
// end of ctx; then their connections are closed.
//
// ServeOn returns an error if an argument is nil, or if the listener fails.
func ServeOn(ctx context.Context, listener net.Listener, h http.Handler) error {
	if listener == nil {
		return errors.New("serving status: the listener is nil")
	}
	if h == nil { // package http would serve its global handlers, with the profiles of net/http/pprof
		_ = listener.Close() // it has served nothing
		return errors.New("serving status: the handler is nil: check the error that New returned")
	}
	background := context.WithoutCancel(ctx)
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return background },
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx)), slog.LevelError),
	}
	klog.FromContext(ctx).Info("serving status", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(stop(background, server), <-ended)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving status at %q: %w", listener.Addr(), err)
	}
	return nil
}

// stop lets requests finish for stopTimeout, and then closes their connections.
// Closing them is not an error, because their clients were too slow.
func stop(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
