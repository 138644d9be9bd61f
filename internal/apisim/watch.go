package apisim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// watch opens a stream. The lock is held.
func (s *Server) watch(ctx context.Context, r *request) (*watcher, error) {
	t, err := s.table(r)
	if err != nil {
		return nil, err
	}
	if err := checkList(r); err != nil {
		return nil, err
	}
	match, err := newSelector(&s.store, &t.res, r)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		server: &s.store, table: t, call: r.Call, ctx: ctx, wake: make(chan struct{}, 1),
		interest: interest{
			match: match, metadataOnly: r.metadataOnly(), bookmarks: isTrue(r.query.Get("allowWatchBookmarks")),
		},
		gated: s.gate != nil && r.Client != admin,
	}
	if err := s.startWatch(w, r); err != nil {
		return nil, err
	}
	s.watchIDs++
	w.id = s.watchIDs
	if seconds, _ := strconv.Atoi(r.query.Get("timeoutSeconds")); seconds > 0 {
		w.timer = time.AfterFunc(time.Duration(seconds)*time.Second, w.timeout)
		if seconds > 2 && w.bookmarks && !w.gated { // of a gated watch the scheduler decides
			w.goodbye = time.AfterFunc(time.Duration(seconds-2)*time.Second, w.farewell)
		}
	}
	s.watches = append(s.watches, w)
	return w, nil
}

// startWatch queues the events that the client has not seen yet.
func (s *store) startWatch(w *watcher, r *request) error {
	initial := isTrue(r.query.Get("sendInitialEvents"))
	if initial && s.opts.NoStreamingLists {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"),
				"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		})
	}
	from, err := s.watchFrom(r.query.Get("resourceVersion"))
	if err != nil {
		return err
	}
	if initial && from > s.version {
		return tooLarge(from, s.version)
	}
	if initial || from == 0 {
		return s.startAnew(w, r)
	}
	w.seen = from
	missed, there := w.table.since(from)
	if !there {
		w.push(delivery{typ: watch.Error, failure: expired(from, w.table.compacted)})
		w.last = true
		return nil
	}
	for _, e := range missed {
		w.offer(e)
	}
	return nil
}

// startAnew queues the present objects, and the events since they were cached.
func (s *store) startAnew(w *watcher, r *request) error {
	version := s.version
	if r.query.Get("resourceVersion") == "0" {
		version = s.cached(w.table, r.Client)
	}
	for _, o := range w.table.at(version) {
		if w.match.matches(o) {
			w.push(delivery{typ: watch.Added, obj: o, version: version})
		}
	}
	if w.bookmarks {
		w.push(delivery{typ: watch.Bookmark, version: version, initialEnd: true})
		w.complete = version
	}
	w.seen = version
	missed, _ := w.table.since(version)
	for _, e := range missed {
		w.offer(e)
	}
	return nil
}

// watchFrom reads the version after which a watch starts; 0: with the state that is there. It may be one to come: the
// cache of the real server waits for that, and says nothing.
func (s *store) watchFrom(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	from, err := strconv.ParseInt(rv, 10, 64)
	if err != nil || from < 0 {
		return 0, brokenVersion(rv)
	}
	return from, nil
}

func expired(from, compacted int64) *metav1.Status {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, compacted+1))
	status := statusOf(err)
	return &status
}

// delivery is one event on its way to a watcher.
type delivery struct {
	typ        watch.EventType
	obj        *stored
	version    int64
	initialEnd bool
	failure    *metav1.Status
}

func (d *delivery) encode(w *watcher) ([]byte, error) {
	body, err := d.payload(w)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(body)+40)
	line = append(line, `{"type":"`...)
	line = append(line, d.typ...)
	line = append(line, `","object":`...)
	line = append(line, body...)
	return append(line, "}\n"...), nil
}

func (d *delivery) payload(w *watcher) ([]byte, error) {
	res := &w.table.res
	switch d.typ {
	case watch.Error:
		return json.Marshal(d.failure)
	case watch.Bookmark:
		m := object{"resourceVersion": formatVersion(d.version)}
		if d.initialEnd {
			m["annotations"] = object{metav1.InitialEventsAnnotationKey: "true"}
		}
		if w.metadataOnly {
			return json.Marshal(object{
				"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": m,
			})
		}
		obj, err := blank(res)
		if err != nil {
			return nil, err
		}
		obj["metadata"] = m
		return json.Marshal(obj)
	}
	if w.metadataOnly {
		return partial(d.obj)
	}
	return d.obj.raw, nil
}

// Compact forgets the history of a resource, or of all for "": watches that resume from before get 410.
func (s *store) Compact(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if resource == "" || t.res.Resource == resource {
			t.compacted, t.history = s.version, nil
		}
	}
}

// Bookmark sends every watch that takes bookmarks and has nothing to come the version of the server.
func (s *store) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.wantsBookmark() {
			w.push(delivery{typ: watch.Bookmark, version: s.version})
		}
	}
}

// DropWatches ends the open watches of a client on a resource ("" for all), as a server that restarts does:
// the clients resume.
func (s *store) DropWatches(client, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if (client == "" || w.call.Client == client) && (resource == "" || w.call.Resource.Resource == resource) {
			w.end(nil)
		}
	}
	s.reap()
}

// reap forgets watches that ended.
func (s *store) reap() {
	s.watches = slices.DeleteFunc(s.watches, func(w *watcher) bool { return w.ended })
}
