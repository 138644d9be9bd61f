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

// watch opens a stream. The lock must be held.
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
		if seconds > 2 && w.bookmarks && !w.gated { // the scheduler decides about gated watches
			w.farewellTimer = time.AfterFunc(time.Duration(seconds-2)*time.Second, w.farewell)
		}
	}
	s.watches = append(s.watches, w)
	return w, nil
}

// startWatch queues the events that the client has not seen yet. If a part of
// them is compacted, it queues the error 410 instead, after which the watch
// ends. For a watch that starts with the present state, see startFromState.
func (s *store) startWatch(w *watcher, r *request) error {
	initial := isTrue(r.query.Get("sendInitialEvents"))
	if initial && s.opts.NoStreamingLists {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"),
				"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		})
	}
	version, err := s.watchFrom(r.query.Get("resourceVersion"))
	if err != nil {
		return err
	}
	if initial && version > s.version {
		return tooLarge(version, s.version)
	}
	if initial || version == 0 {
		return s.startFromState(w, r)
	}
	w.seen = version
	missed, available := w.table.historyAfter(version)
	if !available {
		w.push(delivery{typ: watch.Error, failure: expired(version, w.table.compacted)})
		w.closing = true
		return nil
	}
	for _, e := range missed {
		w.offer(e)
	}
	return nil
}

// startFromState queues the present objects and, for a client that accepts
// bookmarks, a bookmark. For resourceVersion 0 it queues the objects of the
// client's cached version, and the events since that version.
func (s *store) startFromState(w *watcher, r *request) error {
	version := s.version
	if r.query.Get("resourceVersion") == "0" {
		version = s.cached(w.table, r.Client)
	}
	for _, o := range w.table.objectsAt(version) {
		if w.match.matches(o) {
			w.push(delivery{typ: watch.Added, obj: o, version: version})
		}
	}
	if w.bookmarks {
		w.push(delivery{typ: watch.Bookmark, version: version, initialEnd: true})
		w.complete = version
	}
	w.seen = version
	missed, _ := w.table.historyAfter(version)
	for _, e := range missed {
		w.offer(e)
	}
	return nil
}

// watchFrom parses the version after which a watch starts. 0 means that it
// starts with the present state. The version may be in the future: like the
// real server's cache, the watch then waits without an error.
func (s *store) watchFrom(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	version, err := strconv.ParseInt(rv, 10, 64)
	if err != nil || version < 0 {
		return 0, brokenVersion(rv)
	}
	return version, nil
}

func expired(version, compacted int64) *metav1.Status {
	err := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, compacted+1))
	status := statusOf(err)
	return &status
}

// delivery is one event that a watcher has not received yet.
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

// Compact drops the history of a resource, or of all resources if resource is
// "". Watches that resume from an older version get 410.
func (s *store) Compact(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if resource == "" || t.res.Resource == resource {
			t.compacted, t.history = s.version, nil
		}
	}
}

// Bookmark sends the server's version to every watch that accepts bookmarks and
// has no pending events.
func (s *store) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.wantsBookmark() {
			w.push(delivery{typ: watch.Bookmark, version: s.version})
		}
	}
}

// DropWatches ends the open watches of a client on a resource, as a restart of
// the server does. "" means all clients or all resources. The clients resume.
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

// reap removes watches that have ended.
func (s *store) reap() {
	s.watches = slices.DeleteFunc(s.watches, func(w *watcher) bool { return w.ended })
}
