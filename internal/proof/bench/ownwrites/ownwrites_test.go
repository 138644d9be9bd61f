package ownwrites_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How a reconciler fares that writes if its cache, which is late, says that
// this has not been done yet.
const (
	once    = "once"         // the next read shows the write, and waited for it
	free    = "free"         // the next read does not wait: the write does not concern this cache
	again   = "done again"   // the next read does not show the write
	blocks  = "blocks"       // the next read does not return
	refused = "refused"      // the write is refused by the client
	anyway  = "reads anyway" // the next read gives up after a while
)

type row struct {
	name     string
	selector string
	late     time.Duration // defaults to 5 s
	lose     string        // the method whose first answer gets lost
	before   func(w *world)
	todo     func([]corev1.Secret) bool // nil: in the first reconcile
	act      func(ctx context.Context, w *world, c writer) error

	ours, theirs string
}

func none(s []corev1.Secret) bool { return len(s) == 0 }
func some(s []corev1.Secret) bool { return len(s) > 0 }

func existing(w *world) { w.secret("s", map[string]string{"todo": "yes"}) }

func generated() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", GenerateName: "s-"}}
}

func named(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
}

func untyped(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace("d")
	u.SetGenerateName("s-")
	return u
}

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

var coreSecret = corev1.SchemeGroupVersion.WithKind("Secret")

func create(ctx context.Context, _ *world, c writer) error { return c.Create(ctx, generated()) }

// rows are the rows of the table in docs/read-your-writes.md.
var rows = []row{
	{name: "a create", todo: none, act: create, ours: once, theirs: once},
	{
		name: "an update after which the object leaves the selector", selector: "todo=yes", before: existing, todo: some,
		act: func(ctx context.Context, _ *world, c writer) error {
			return c.Patch(ctx, named("s"), merge(`{"metadata":{"labels":{"todo":"no"}}}`))
		}, ours: once, theirs: once,
	},
	{
		name: "a delete", before: existing, todo: some,
		act: func(ctx context.Context, _ *world, c writer) error {
			return client.IgnoreNotFound(c.Delete(ctx, named("s")))
		}, ours: once, theirs: once,
	},
	{
		name: "a write of the metadata, a cache of the Go type", selector: "todo=yes", before: existing, todo: some,
		act: func(ctx context.Context, _ *world, c writer) error {
			m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s"}}
			m.SetGroupVersionKind(coreSecret)
			return c.Patch(ctx, m, merge(`{"metadata":{"labels":{"todo":"no"}}}`))
		}, ours: once, theirs: again,
	},
	{
		name: "an untyped write, a cache of the Go type", todo: none,
		act:  func(ctx context.Context, _ *world, c writer) error { return c.Create(ctx, untyped(coreSecret)) },
		ours: once, theirs: once,
	},
	{
		name: "a write by a generated client", todo: none,
		act: func(ctx context.Context, _ *world, c writer) error {
			_, err := c.raw.CoreV1().Secrets("d").Create(ctx, generated(), metav1.CreateOptions{})
			return err
		}, ours: once, theirs: again,
	},
	{
		name: "a lost answer", lose: http.MethodPost, todo: none, act: create, ours: once, theirs: again,
	},
	{
		name: "the removal of the last finalizer", todo: some,
		before: func(w *world) {
			w.secret("s", nil, "example.com/a")
			if err := w.admin.CoreV1().Secrets("d").Delete(w.t.Context(), "s", metav1.DeleteOptions{}); err != nil {
				w.t.Error(err)
			}
		},
		act: func(ctx context.Context, _ *world, c writer) error {
			return client.IgnoreNotFound(c.Patch(ctx, named("s"), merge(`{"metadata":{"finalizers":[]}}`)))
		}, ours: once, theirs: again,
	},
	{
		name: "a create outside the selector", selector: "todo=yes", act: create, ours: free, theirs: blocks,
	},
	{
		name: "a delete by name of an object that the cache has not seen yet",
		act: func(ctx context.Context, w *world, c writer) error {
			w.secret("s", nil)
			return c.Delete(ctx, named("s"))
		}, ours: once, theirs: refused,
	},
	{
		name: "a delete of a collection", before: existing, todo: some,
		act: func(ctx context.Context, _ *world, c writer) error {
			return c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("d"))
		}, ours: once, theirs: refused,
	},
	{
		name: "a kind of the same name in another group",
		act:  func(ctx context.Context, _ *world, c writer) error { return c.Create(ctx, untyped(otherSecret)) },
		ours: free, theirs: free,
	},
	{name: "a watch that has gone silent", late: 24 * time.Hour, act: create, ours: anyway, theirs: blocks},
}

func TestReadYourWritesOfHomeostat(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { r.expect(t, runOurs, r.ours) })
	}
}

func TestReadYourWritesOfControllerRuntime(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { r.expect(t, runTheirs, r.theirs) })
	}
}

// The table in the docs has the results of the tests.
func TestTheDocsHaveTheseRows(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/read-your-writes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if line := "| " + r.name + " | " + r.ours + " | " + r.theirs + " |\n"; !strings.Contains(string(docs), line) {
			t.Errorf("the docs lack %q", line)
		}
	}
}

// expect runs the program for two minutes, and compares the outcome.
func (r row) expect(t *testing.T, run program, want string) {
	inWorld(t, func(w *world) {
		w.selector = r.selector
		if r.late != 0 {
			w.late = r.late
		}
		if r.lose != "" {
			w.wrap = loser(r.lose)
		}
		if r.before != nil {
			r.before(w)
		}
		o := &observed{}
		ctx, stop := context.WithTimeout(w.t.Context(), 2*time.Minute)
		defer stop()
		err := run(ctx, w, func(ctx context.Context, _ string, read func() ([]corev1.Secret, error), c writer) error {
			return o.reconcile(ctx, &r, w, read, c)
		})
		if err != nil {
			w.t.Error(err)
		}
		if got := o.outcome(w.late); got != want {
			w.t.Errorf("%s, want %s: %+v", got, want, o)
		}
	}, "a")
}

// observed records the actions and observations of a reconciler.
type observed struct {
	mu      sync.Mutex
	acts    int
	acted   time.Time // first
	read    time.Time // first after that; zero if no read returned
	refusal error
}

func (o *observed) reconcile(
	ctx context.Context, r *row, w *world, read func() ([]corev1.Secret, error), c writer,
) error {
	secrets, err := read()
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.acts > 0 && o.read.IsZero() {
		o.read = time.Now()
	}
	if r.todo != nil && !r.todo(secrets) || r.todo == nil && o.acts > 0 {
		return nil
	}
	o.acts++
	err = r.act(ctx, w, c)
	if o.acts == 1 {
		o.acted = time.Now()
		if r.lose == "" {
			o.refusal = err
		}
	}
	return nil
}

func (o *observed) outcome(late time.Duration) string {
	waited := o.read.Sub(o.acted)
	switch {
	case o.acts == 0:
		return "never done"
	case o.refusal != nil:
		return refused
	case o.acts > 1:
		return again
	case o.read.IsZero():
		return blocks
	case waited <= time.Second:
		return free
	case waited < late:
		return anyway
	}
	return once
}

// loser loses the first answer to a write of Secrets by that method.
func loser(method string) func(http.RoundTripper) http.RoundTripper {
	lost := false
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(req *http.Request) (*http.Response, error) {
			res, err := next.RoundTrip(req)
			if lost || err != nil || req.Method != method || !strings.HasSuffix(req.URL.Path, "/secrets") {
				return res, err
			}
			lost = true
			_ = res.Body.Close()
			return nil, context.DeadlineExceeded
		})
	}
}

// A controller-runtime that only writes a kind reads all of it, too.
func TestWhatIsOnlyWrittenIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		run   program
		reads bool
	}{"homeostat": {runOurs, false}, "controller-runtime": {runTheirs, true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
				defer stop()
				wrote := false
				err := c.run(ctx, w, func(ctx context.Context, _ string, _ func() ([]corev1.Secret, error), c writer) error {
					if wrote {
						return nil
					}
					wrote = true
					return c.Create(ctx, untyped(otherSecret))
				})
				if err != nil || !wrote {
					w.t.Errorf("wrote: %v, error: %v", wrote, err)
				}
				reads := 0
				for path, n := range w.gets {
					if strings.HasPrefix(path, "/apis/example.com/") {
						reads += n
					}
				}
				if (reads > 0) != c.reads {
					w.t.Errorf("%d reads", reads)
				}
			}, "a")
		})
	}
}

// The reads of b come at most a second apart, and the cache shows the write of
// a after five.
func TestAReadOfAnotherKey(t *testing.T) {
	for name, c := range map[string]struct {
		run   program
		waits bool
	}{"homeostat": {runOurs, false}, "controller-runtime": {runTheirs, true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
				defer stop()
				var waits []time.Duration
				acted := false
				err := c.run(ctx, w, func(ctx context.Context, key string, read func() ([]corev1.Secret, error), c writer) error {
					if key == "a" {
						if acted {
							return nil
						}
						acted = true
						return c.Create(ctx, generated())
					}
					began := time.Now()
					_, err := read()
					waits = append(waits, time.Since(began))
					return err
				})
				if err != nil || len(waits) < 10 {
					w.t.Errorf("%d reads, error: %v", len(waits), err)
				}
				if longest := slices.Max(waits); longest >= 4*time.Second != c.waits || !c.waits && longest > 0 {
					w.t.Errorf("waits for %v", longest)
				}
			}, "a", "b")
		})
	}
}

// The replica that led before created a Secret right before this one took the
// Lease.
func TestANewLeaderSeesWhatTheLastOneWrote(t *testing.T) {
	for name, c := range map[string]struct {
		run     program
		creates int
	}{"homeostat": {runOurs, 0}, "controller-runtime": {runTheirs, 1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.leading = true
				led := false
				w.wrap = func(next http.RoundTripper) http.RoundTripper {
					return transport(func(req *http.Request) (*http.Response, error) {
						if strings.Contains(req.URL.Path, "/leases") && req.Method == http.MethodPost && !led {
							led = true
							<-time.After(3 * time.Second) // the caches have synced
							w.secret("s", nil)
						}
						return next.RoundTrip(req)
					})
				}
				ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
				defer stop()
				creates := 0
				err := c.run(ctx, w, func(ctx context.Context, _ string, read func() ([]corev1.Secret, error), c writer) error {
					if secrets, err := read(); err != nil || len(secrets) > 0 {
						return err
					}
					creates++
					return c.Create(ctx, generated())
				})
				if err != nil || !led || creates != c.creates {
					w.t.Errorf("%d creates, want %d; led: %v, error: %v", creates, c.creates, led, err)
				}
			}, "a")
		})
	}
}
