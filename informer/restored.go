package informer

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/versions"
)

// errRestored ends requests for a state that the server has lost.
var errRestored = errors.New("the server's resourceVersion has gone back, as after a restore of its storage: " +
	"listing everything again")

const (
	// checkTimeout is the time limit of the check that a resumed watch waits
	// for.
	checkTimeout = 5 * time.Second
	// timelyEnd is how long before its timeout a healthy server may end a
	// watch.
	timelyEnd = 5 * time.Second
)

// serverClock records what is known about the server's resourceVersions. They
// count the writes, so they only rise, until the server's storage is restored
// from a backup. The server does not report a restore. For example, a watch
// that resumes from a resourceVersion of the future is silent until the server
// has reached it again, and misses all writes until then.
type serverClock struct {
	// restored reports whether the server has gone back and has not been listed
	// since.
	restored bool
	// unsure reports whether a watch broke off since the last check, so that
	// the server may have been restored.
	unsure bool
}

// noteRestored records that the server is at rv although it was at seen before.
// It ends the watch, so that the reflector lists everything again.
func (r *reflectorStore[T]) noteRestored(seen, rv string) {
	if r.isNewlyRestored(seen, rv) {
		r.watched.stop()
	}
}

// isNewlyRestored records a restore, and reports whether it was not known yet.
// It logs a new one.
func (r *reflectorStore[T]) isNewlyRestored(seen, rv string) bool {
	r.clockMu.Lock()
	known := r.clock.restored
	r.clock.restored = true
	r.clockMu.Unlock()
	if known {
		return false
	}
	r.sink.counted.restores.Add(1)
	r.progress.log.Info("the server's storage was restored to an earlier state, listing everything again",
		"seen", seen, "resourceVersion", rv, "namespace", r.source.namespace, "server", r.source.server)
	return true
}

// isRestored reports whether a restored server must be listed again.
func (r *reflectorStore[T]) isRestored() bool {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.restored
}

// forgetTime makes opts request the newest state of a restored server, because
// the server does not have the state that the reflector requests.
func (r *reflectorStore[T]) forgetTime(opts *metav1.ListOptions) {
	if !r.isRestored() || opts.Continue != "" {
		return
	}
	opts.ResourceVersion = ""
	if opts.SendInitialEvents == nil {
		opts.ResourceVersionMatch = ""
	}
}

// listedAt records a list of the watch, and returns the reason for the list.
func (r *reflectorStore[T]) listedAt(rv string) versions.Occasion {
	if seen, older := r.isBefore(rv); older {
		r.isNewlyRestored(seen, rv)
	}
	r.clockMu.Lock()
	restored := r.clock.restored
	r.clock = serverClock{}
	r.clockMu.Unlock()
	switch {
	case !r.progress.synced.Load():
		return versions.FirstList
	case restored:
		return versions.RestoredList
	}
	return versions.Relist
}

// isBefore reports whether rv is older than the resourceVersion that the watch
// has reached. It also returns the latter.
func (r *reflectorStore[T]) isBefore(rv string) (seen string, older bool) {
	seen = r.sink.marks.Of(r.source.namespace)
	return seen, r.comparable() && rv != "" && versions.Older(rv, seen)
}

// comparable reports whether resourceVersions of this source can be compared.
func (r *reflectorStore[T]) comparable() bool {
	return !r.source.isSimulated() && r.source.follows == nil
}

// brokeOff records that the server may have been restored, if the last watch
// ended unexpectedly.
func (r *reflectorStore[T]) brokeOff() {
	if r.progress.endedEarly() && !r.watched.stoppedByUs() && r.comparable() {
		r.clockMu.Lock()
		r.clock.unsure = true
		r.clockMu.Unlock()
	}
}

// checked returns w, which was resumed at seen, or errRestored if the server is
// older than seen. If the server does not answer, it returns w, and the next
// watch is checked again.
func (r *reflectorStore[T]) checked(ctx context.Context, w watch.Interface, seen string) (watch.Interface, error) {
	r.clockMu.Lock()
	unsure := r.clock.unsure
	r.clockMu.Unlock()
	if !unsure || seen == "" {
		return w, nil
	}
	rv, err := r.serverVersion(ctx)
	switch {
	case err != nil:
		r.progress.log.V(1).Info("cannot check whether the server was restored, retrying with the next watch",
			"reason", err.Error())
		return w, nil
	case versions.Older(rv, seen):
		w.Stop()
		r.noteRestored(seen, rv)
		return nil, errRestored
	}
	r.clockMu.Lock()
	r.clock.unsure = false
	r.clockMu.Unlock()
	return w, nil
}

// serverVersion returns the server's resourceVersion. It lists one object
// without a resourceVersion, so that the server answers with its newest one.
func (r *reflectorStore[T]) serverVersion(ctx context.Context) (string, error) {
	if !r.lists.begin() {
		return "", context.Cause(ctx)
	}
	defer r.lists.end()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	opts := metav1.ListOptions{Limit: 1}
	r.selects(&opts)
	if r.part != nil {
		r.part.Select(&opts, r.part.Wanted())
	}
	page, err := r.list(ctx, opts)
	if err != nil {
		return "", err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}
