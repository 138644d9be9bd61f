package status

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/klog/v2"
)

// New returns a handler of /livez, /readyz, /metrics, /debug/homeostat and,
// with Options.Authorize and Options.Profiles, /debug/pprof/. It starts nothing, and is safe for concurrent use.
//
// Errors: every fault of the options, joined.
func New(o *Options) (http.Handler, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making a status handler: %w", err)
	}
	live, ready := liveChecks(&options), readyChecks(&options)
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe{"livez", func() []finding { return askAll(live) }})
	mux.Handle("GET /readyz", probe{"readyz", func() []finding {
		return append(known(options.Controllers), askAll(ready)...)
	}})
	mux.Handle("GET /metrics", authorized(options.Authorize, exposition{options.Gatherer}))
	mux.Handle("GET /debug/homeostat", authorized(options.Authorize, newPage(options.Controllers)))
	if options.Authorize != nil && options.Profiles != nil {
		mux.Handle("GET /debug/pprof/", authorized(options.Authorize, options.Profiles))
	}
	return mux, nil
}

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
			refuse(w, http.StatusForbidden)
		}
	})
}

// refuse does not say why: the reason is for whoever runs the program, and may
// tell a stranger too much.
func refuse(w http.ResponseWriter, status int) {
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, http.StatusText(status))
}

// An exposition serves metrics in the format that the client asks for.
type exposition struct{ gatherer prometheus.Gatherer }

func (e exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
	var body bytes.Buffer
	if err := e.encode(&body, format); err != nil {
		klog.FromContext(r.Context()).Error(err, "metrics could not be served")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header(w, string(format))
	_, _ = body.WriteTo(w) // the client may have gone
}

func (e exposition) encode(body *bytes.Buffer, format expfmt.Format) error {
	families, err := e.gatherer.Gather()
	if err != nil {
		return fmt.Errorf("gathering metrics: %w", err)
	}
	encoder := expfmt.NewEncoder(body, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return fmt.Errorf("encoding metrics: %w", err)
		}
	}
	return nil
}
