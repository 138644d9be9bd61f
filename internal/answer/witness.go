package answer

import (
	"context"
	"errors"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/homeostat/homeostat/internal/rvorder"
)

// A Witness records the outcome of the requests of a context. A client of
// client-go follows a redirect, and does not return the answer to a deletion,
// so a caller of such a client needs a Witness to know whether the server has
// answered the request. Package cluster tells the Witness of the answers that
// it has checked.
type Witness struct {
	deletion   atomic.Pointer[Deletion]
	redirected atomic.Bool
}

// Deletion is what the answer to a deletion shows. The zero Deletion proves no
// deletion.
type Deletion struct {
	// Proven is set if the object is deleted or is being deleted.
	Proven bool
	// Version is the resourceVersion of the object in the answer. It is empty if
	// the answer is a Status. The answers about some built-in kinds have the
	// object as it was before the deletion. The server then gives it the version
	// of the deletion. The answer to a dry run has the version of the object as
	// it is.
	Version string
}

type witnessKey struct{}

// WithWitness returns a context whose requests are recorded in the Witness.
func WithWitness(ctx context.Context) (context.Context, *Witness) {
	w := &Witness{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(name string, _ []string) {
		if strings.EqualFold(name, "Referer") { // net/http names the address that it was redirected from
			w.redirected.Store(true)
		}
	}})
	return context.WithValue(ctx, witnessKey{}, w), w
}

// WitnessOf returns the Witness of a request's context. It returns nil if the
// context has no Witness. Saw and Redirect may be called on nil; IsDeleted must
// not.
func WitnessOf(ctx context.Context) *Witness {
	w, _ := ctx.Value(witnessKey{}).(*Witness)
	return w
}

// Saw records what a successful answer shows of a deletion. The answer must
// have been checked. d is zero if the request was not a deletion.
func (w *Witness) Saw(d Deletion) {
	if w != nil {
		w.deletion.Store(&d)
	}
}

// IsDeleted reports whether the last answer proves that the object is deleted
// or is being deleted. cached is the resourceVersion of the object in the
// cache.
func (w *Witness) IsDeleted(cached string) bool {
	if w == nil {
		return false
	}
	d := w.deletion.Load()
	switch {
	case d == nil:
		return false
	case d.Proven: // a gateway may have made the deletion a dry run, which changes nothing
		return d.Version == "" || d.Version != cached
	}
	return rvorder.Older(cached, d.Version) && w.Redirect() == nil
}

// Redirect returns an error if a request was redirected. Go's HTTP client sends
// a GET to the new address of most redirects, so the answer to a write may be
// the object as it was.
func (w *Witness) Redirect() error {
	if w == nil || !w.redirected.Load() {
		return nil
	}
	return errors.New("the request was redirected, so the answer may be about a different request")
}
