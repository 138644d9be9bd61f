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

// errRestored ends requests about a state that the server has lost.
var errRestored = errors.New("the server's resourceVersions have gone back, as after a restore of its storage: " +
	"everything is listed again")

const (
	// checkTimeout bounds the request that a resumed watch waits for.
	checkTimeout = 5 * time.Second
	// timelyEnd is how long before its timeout a watch may end and still count
	// as ended by a server that works.
	timelyEnd = 5 * time.Second
)

// serverClock is what a reflectorStore knows of the server's resourceVersions.
// They count the writes, so they only rise, until the server's storage is
// restored from a backup. Then the server does not tell: a watch that resumes
// from a later resourceVersion brings nothing until the server has come there
// again, and never what it wrote in between.
type serverClock struct {
	// restored says that the server has gone back, and that the list which
	// follows from that has not come yet.
	restored bool
	// unsure says that a watch broke off: the server may have been restored since.
	unsure bool
}

// noteRestored notes that the server is at rv, although it was at seen before.
// It ends the watch, so that the reflector lists everything again.
func (r *reflectorStore[T]) noteRestored(seen, rv string) {
	if r.isNewlyRestored(seen, rv) {
		r.watched.stop()
	}
}

// isNewlyRestored notes and logs a restore, and reports whether that is new.
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

// isRestored reports whether everything is to be listed again.
func (r *reflectorStore[T]) isRestored() bool {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.restored
}

// forgetTime makes a list of a restored server one of its newest state, since it
// does not have the state that the reflector asks for.
func (r *reflectorStore[T]) forgetTime(opts *metav1.ListOptions) {
	if !r.isRestored() || opts.Continue != "" {
		return
	}
	opts.ResourceVersion = ""
	if opts.SendInitialEvents == nil {
		opts.ResourceVersionMatch = ""
	}
}

// listedAt notes a list of the watch, and returns what it is.
func (r *reflectorStore[T]) listedAt(rv string) versions.Occasion {
	if seen, before := r.isBefore(rv); before {
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

// isBefore reports whether rv is before what the watch has brought, which it
// returns.
func (r *reflectorStore[T]) isBefore(rv string) (seen string, before bool) {
	seen = r.sink.marks.Of(r.source.namespace)
	return seen, r.comparable() && rv != "" && versions.Older(rv, seen)
}

// comparable reports whether the resourceVersions of all events and lists are
// in order.
func (r *reflectorStore[T]) comparable() bool {
	return !r.source.isSimulated() && r.source.follows == nil
}

// brokeOff notes that the last watch may have ended because the server has.
func (r *reflectorStore[T]) brokeOff() {
	if r.progress.endedEarly() && !r.watched.stoppedByUs() && r.comparable() {
		r.clockMu.Lock()
		r.clock.unsure = true
		r.clockMu.Unlock()
	}
}

// checked returns w, which was resumed at seen, unless the server is not as new
// as that. A check without an answer is repeated when the next watch is opened.
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
		r.progress.log.V(1).Info("cannot ask whether the server was restored, trying when the next watch is opened",
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

// serverVersion returns how new the server is. It lists one object: without a
// resourceVersion, the server answers as new as it is.
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
