package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// Page shows over HTTP what a manager's caches and controllers do, with the
// status page and the probes of package status:
//
//	var page controllerruntime.Page
//	err = page.AddTo(mgr)
//	r := controllerruntime.Show(&page, "websites", reconciler) // for each controller
//
// It names caches that have not synced, watches that have failed for a minute,
// objects on demand that cannot be watched, and keys whose last reconcile has
// failed, with the error. Of each controller, it names at most ten such keys.
// It cannot see the keys that wait in a queue (see [Queues]), what reconciles
// write, controllers that are not wrapped by [Show], and the caches of other
// clusters.
//
// Its zero value is ready to use. It is safe for concurrent use.
type Page struct {
	// Informers returns the state of the informers to show. Defaults to Status of
	// the manager's cache. That cache must then be made by NewCache. With package
	// informer/clientgo alone, use the method of clientgo.Informers.
	Informers func() []informer.Status
	// Authorize guards the page and its metrics, but not the probes; see
	// status.Options. Defaults to no check in addition to the FilterProvider of
	// the manager's metrics server.
	Authorize func(*http.Request) error

	mu    sync.Mutex // guards shown
	shown []*shown
}

// AddTo adds the page to a manager's metrics server, as
// /homeostat/debug/homeostat, beside /homeostat/readyz, /homeostat/livez and
// /homeostat/metrics. It also adds the check "caches" to the manager's own
// probes. The readiness probe then fails until all caches have synced. The
// liveness probe fails if the API server has refused the credentials of a cache
// for five minutes, although it accepted them before: a restart loads new ones.
// Call AddTo before the manager starts.
//
// AddTo returns an error if Informers is not set and the manager's cache was
// not made by NewCache. It also returns the errors of the manager.
func (p *Page) AddTo(mgr manager.Manager) error {
	informers := p.Informers
	if informers == nil {
		cached := mgr.GetCache()
		if _, ok := cached.(*onDemand); !ok {
			return errors.New("adding a page to a manager: its cache was not made by controllerruntime.NewCache, " +
				"and Page.Informers is nil")
		}
		informers = func() []informer.Status { return Status(cached) }
	}
	handler, err := status.New(&status.Options{
		Informers: informers, Problems: p.problems, Authorize: p.Authorize, Gatherer: ctrlmetrics.Registry,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		mgr.AddMetricsServerExtraHandler("/homeostat/", http.StripPrefix("/homeostat", handler)),
		mgr.AddReadyzCheck("caches", func(*http.Request) error { return synced(informers()) }),
		mgr.AddHealthzCheck("caches", func(*http.Request) error { return accepted(informers()) }))
}

// accepted returns an error that names the caches whose credentials the API
// server has refused for a while. Only a restart helps then.
func accepted(informers []informer.Status) error {
	var errs []error
	for _, i := range informers {
		errs = append(errs, parts.CredentialsEnded(i.Name, i.UnauthorizedSince))
	}
	return errors.Join(errs...)
}

// synced returns an error that names the caches that have not synced. A cache
// whose namespaces are independent has synced if one of its namespaces has been
// listed.
func synced(informers []informer.Status) error {
	var errs []error
	for _, i := range informers {
		if !i.Synced && !i.Partly {
			errs = append(errs, fmt.Errorf("%s has not synced: %s", i.Name, i.Reason))
		}
	}
	return errors.Join(errs...)
}

// problems returns the problems of all shown controllers. Each problem is a key
// whose last reconcile has failed.
func (p *Page) problems() (problems []inspect.Problem) {
	p.mu.Lock()
	controllers := slices.Clone(p.shown)
	p.mu.Unlock()
	for _, s := range controllers {
		problems = append(problems, s.problems()...)
	}
	return problems
}

// Show returns a reconciler that calls r. The page p then names the keys whose
// last reconcile has failed. controller is the name of the controller. The
// result and the error of r are returned unchanged.
func Show[R comparable](p *Page, controller string, r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	s := &shown{name: controller, failing: map[any]failure{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = append(p.shown, s)
	return showing[R]{r, s}
}

// showing is a reconciler whose failures are shown.
type showing[R comparable] struct {
	inner reconcile.TypedReconciler[R]
	shown *shown
}

// Reconcile implements [reconcile.TypedReconciler].
func (s showing[R]) Reconcile(ctx context.Context, r R) (result reconcile.Result, err error) {
	returned := false
	defer func() {
		if !returned {
			s.shown.note(r, errPanicked)
		}
	}()
	result, err = s.inner.Reconcile(ctx, r)
	returned = true
	if ctx.Err() == nil || err == nil { // an error that a stop causes is not an error of the key
		s.shown.note(r, err)
	}
	return result, err
}

var errPanicked = errors.New("the reconciler panicked")

// shown has the failing keys of one controller.
type shown struct {
	name string

	mu      sync.Mutex // guards failing
	failing map[any]failure
}

// failure is the last error of a key, and when its failures began.
type failure struct {
	began  time.Time
	key    string
	reason string
}

func (s *shown) note(key any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failing, key)
		return
	}
	f, known := s.failing[key]
	if !known {
		f = failure{began: time.Now(), key: fmt.Sprint(key)}
	}
	f.reason = redact.Error(err)
	s.failing[key] = f
}

// mostFailures is the largest number of failing keys of a controller that are
// named.
const mostFailures = 10

// problems returns the keys that have failed for the longest time, at most
// mostFailures of them. The last one also says how many more keys fail.
func (s *shown) problems() (problems []inspect.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.failing {
		problems = append(problems, inspect.Problem{
			Check: parts.ControllerCheck(s.name), Object: f.key, Cause: "reconcile failed", Reason: f.reason, Since: f.began,
		})
	}
	slices.SortFunc(problems, func(a, b inspect.Problem) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Object, b.Object))
	})
	if hidden := len(problems) - mostFailures; hidden > 0 {
		problems = problems[:mostFailures]
		problems[mostFailures-1].More = hidden
	}
	return problems
}
