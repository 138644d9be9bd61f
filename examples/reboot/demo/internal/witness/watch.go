package witness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// maxDelay bounds how late an event may arrive. The events of the two watches
// are not ordered among each other. The witness assumes that an event arrives
// at most this long after a later event of the other watch.
const maxDelay = time.Second

const retryPause = 200 * time.Millisecond

// A Witness records the history of one RebootGroup and of all nodes. It is safe
// for concurrent use.
type Witness struct {
	client dynamic.Interface
	group  string

	mu      sync.Mutex // guards the fields below
	history []Event
	arrived []time.Time
	nodes   map[string]*Node
	ledger  *Ledger
	broken  error // why the history is incomplete; nil if it is complete
}

// New returns a witness of the group with this name. It sees nothing until the
// caller runs it with Run.
func New(config *rest.Config, group string) (*Witness, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client that watches the demo: %w", err)
	}
	return &Witness{client: client, group: group, nodes: map[string]*Node{}}, nil
}

// Run watches until ctx ends. It calls started when both kinds have been
// listed, or when ctx ends before that. From then on the witness records all
// events. If the server no longer has events that the witness needs, the
// history is incomplete, and Verdict returns an error.
func (w *Witness) Run(ctx context.Context, started func()) {
	var listed, running sync.WaitGroup
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "nodes"},
		{Group: "reboot.homeostat.dev", Version: "v1alpha1", Resource: "rebootgroups"},
	} {
		listed.Add(1)
		running.Go(func() { w.follow(ctx, w.client.Resource(resource), sync.OnceFunc(listed.Done)) })
	}
	listed.Wait()
	started()
	running.Wait()
}

// follow lists the objects once, and then watches them until ctx ends or the
// watch has missed events. After missed events the history is incomplete.
// follow calls listed after its first list, and again when it returns.
func (w *Witness) follow(ctx context.Context, client dynamic.ResourceInterface, listed func()) {
	defer listed()
	version := ""
	for ctx.Err() == nil {
		if version == "" {
			list, err := client.List(ctx, metav1.ListOptions{})
			if err != nil {
				pause(ctx)
				continue
			}
			for i := range list.Items {
				w.add(&list.Items[i], false)
			}
			version = list.GetResourceVersion()
			listed()
		}
		stream, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			w.fail(fmt.Errorf("the watch missed events: %w", err))
			return
		}
		if err != nil {
			pause(ctx)
			continue
		}
		version = w.consume(ctx, stream, version)
	}
}

// consume reads a watch to its end, and returns the resourceVersion of the last
// event. version is the result if there is no event.
func (w *Witness) consume(ctx context.Context, stream watch.Interface, version string) string {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return version
		case e, ok := <-stream.ResultChan():
			if !ok {
				return version
			}
			u, isObject := e.Object.(*unstructured.Unstructured)
			if !isObject { // the server reports an error with a Status
				if err := apierrors.FromObject(e.Object); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					w.fail(fmt.Errorf("the watch missed events: %w", err))
				}
				pause(ctx)
				return version
			}
			version = u.GetResourceVersion()
			if e.Type != watch.Bookmark {
				w.add(u, e.Type == watch.Deleted)
			}
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retryPause):
	}
}

func (w *Witness) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
}

func (w *Witness) add(u *unstructured.Unstructured, deleted bool) {
	if u.GetKind() == "RebootGroup" && u.GetName() != w.group {
		return
	}
	e, err := Read(u, deleted)
	if err != nil {
		w.fail(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history, w.arrived = append(w.history, e), append(w.arrived, time.Now())
	switch {
	case e.Ledger != nil:
		w.ledger = e.Ledger
	case deleted:
		delete(w.nodes, e.Node.Name)
	default:
		w.nodes[e.Node.Name] = e.Node
	}
}

// State returns the newest nodes by name, and the newest ledger.
func (w *Witness) State() (map[string]Node, Ledger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes := map[string]Node{}
	for name, n := range w.nodes {
		nodes[name] = *n
	}
	if w.ledger == nil {
		return nodes, Ledger{Name: w.group}
	}
	return nodes, *w.ledger
}

// Violations checks the events so far. It leaves out the last second, because
// an event of the other watch may still arrive.
func (w *Witness) Violations() []Violation {
	w.mu.Lock()
	n := 0
	for n < len(w.arrived) && time.Since(w.arrived[n]) > maxDelay {
		n++
	}
	history := w.history[:n:n]
	w.mu.Unlock()
	return Check(history)
}

// Verdict checks the whole history. It returns the violations, the number of
// events, and an error if the history is incomplete.
func (w *Witness) Verdict() (violations []Violation, events int, err error) {
	w.mu.Lock()
	history, broken := slices.Clip(w.history), w.broken
	w.mu.Unlock()
	return Check(history), len(history), broken
}
