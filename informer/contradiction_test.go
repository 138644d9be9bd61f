package informer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

// contradicting is a server of Nodes behind a gateway.
type contradicting struct {
	streams atomic.Int64
	// first answers the first streaming list, and later the other ones.
	first, later step
	// resumed answers watches that continue at a resourceVersion.
	resumed step
	list    step
}

func (c *contradicting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case !query.Has("watch"):
		c.list(w, r)
	case !query.Has("sendInitialEvents"):
		c.resumed(w, r)
	case c.streams.Add(1) == 1:
		c.first(w, r)
	default:
		c.later(w, r)
	}
}

// inNodes runs an informer of the server's Nodes with a typed client, and one
// with a dynamic client.
func (c *contradicting) inNodes(t *testing.T, o *informer.Options, f func(g *WithT, heard func() []string, cached cache)) {
	t.Run("typed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c.streams.Store(0)
			client, done := clientTo("", c)
			defer done()
			in := informer.For(client.CoreV1().Nodes(), o)
			told := &record{}
			in.Handle(told.hear)
			defer running(context.WithoutCancel(t.Context()), in)()
			f(NewWithT(t), told.heard, in)
		})
	})
	t.Run("untyped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c.streams.Store(0)
			g := NewWithT(t)
			client, err := dynamic.NewForConfig(&rest.Config{Host: "http://script", Transport: inProcess{c}, QPS: -1})
			g.Expect(err).NotTo(HaveOccurred())
			in := informer.For(informer.Untyped(client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))), o)
			told := &record{}
			in.Handle(func(e informer.Event[*unstructured.Unstructured]) {
				told.hear(informer.Event[*corev1.Node]{
					Type: e.Type, Initial: e.Initial, Old: asNode(e.Old), New: asNode(e.New),
				})
			})
			defer running(context.WithoutCancel(t.Context()), in)()
			f(g, told.heard, in)
		})
	})
}

func asNode(u *unstructured.Unstructured) *corev1.Node {
	if u == nil {
		return nil
	}
	return versioned(u.GetName(), string(u.GetUID()), u.GetResourceVersion())
}

func nodesAB(last step, events ...any) step {
	return stream(last, append([]any{added(versioned("a", "1", "10")), added(versioned("b", "2", "11")), listEnd("12")}, events...)...)
}

const initialEventsEnd = `"annotations":{"k8s.io/initial-events-end":"true"}`

func rawEvent(kind, object string) any { return event(kind, json.RawMessage(object)) }

// client-go believes any bookmark.
func TestABookmarkThatTheServerCannotHaveSentEndsNoList(t *testing.T) {
	for name, bookmark := range map[string]string{
		"without a resourceVersion": `{"kind":"Node","apiVersion":"v1","metadata":{` + initialEventsEnd + `}}`,
		"of resourceVersion 0":      `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"0",` + initialEventsEnd + `}}`,
		"of no number":              `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"abc",` + initialEventsEnd + `}}`,
		"of another kind":           `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"20",` + initialEventsEnd + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var mended atomic.Bool
			c := &contradicting{
				first: nodesAB(end), resumed: refuse(http.StatusGone, "Expired"), later: stream(hold, rawEvent("BOOKMARK", bookmark)),
				list: func(w http.ResponseWriter, r *http.Request) {
					if mended.Load() {
						list("30", versioned("b", "2", "11"), versioned("c", "3", "14"))(w, r)
					} else {
						refuse(http.StatusServiceUnavailable, "ServiceUnavailable")(w, r)
					}
				},
			}
			c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
				defer mended.Store(false) // for the next informer
				<-time.After(5 * time.Minute)
				g.Expect(heard()).To(ConsistOf("known a/1", "known b/2"))
				g.Expect(cached.Status().Problems).NotTo(BeEmpty())
				mended.Store(true)
				<-time.After(5 * time.Minute)
				g.Expect(heard()).To(ContainElements("deleted a/1", "added c/3"))
			})
		})
	}
}

// A gateway repeats an old event, or strips the metadata.
func TestAnEventThatCannotFollowDeletesNothing(t *testing.T) {
	for name, e := range map[string]any{
		"a deletion that is older than the object":  deleted(versioned("a", "1", "5")),
		"a deletion without a UID":                  deleted(versioned("a", "", "15")),
		"a deletion without a resourceVersion":      deleted(versioned("a", "1", "")),
		"a deletion with a name only":               deleted(versioned("a", "", "")),
		"a change without a UID":                    modified(versioned("a", "", "15")),
		"a change without a resourceVersion":        modified(versioned("a", "1", "")),
		"a change of another UID, without deletion": modified(versioned("a", "7", "15")),
		"an addition of another UID":                added(versioned("a", "7", "15")),
		"a deletion of another version": rawEvent("DELETED",
			`{"kind":"Node","apiVersion":"v2","metadata":{"name":"a","uid":"1","resourceVersion":"15"}}`),
		"a Table": rawEvent("DELETED",
			`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"15"},"rows":[]}`),
	} {
		t.Run(name, func(t *testing.T) {
			c := &contradicting{
				first: nodesAB(hold, e), resumed: hold, later: nodesAB(hold, added(versioned("c", "3", "21"))),
				list: list("20", versioned("a", "1", "10"), versioned("b", "2", "11")),
			}
			c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
				<-time.After(5 * time.Minute)
				g.Expect(heard()).To(ConsistOf("known a/1", "known b/2", "added c/3"))
				g.Expect(cached.Status().Problems).To(BeEmpty())
			})
		})
	}
	c := &contradicting{first: nodesAB(hold, deleted(versioned("a", "1", "10"))), resumed: hold, later: hold, list: refuse(500, "")}
	c.inNodes(t, nil, func(g *WithT, heard func() []string, _ cache) {
		<-time.After(time.Second)
		g.Expect(heard()).To(ContainElement("deleted a/1"), "servers may report the last state of what they delete")
	})
}

// A gateway drops the query of the request.
func TestWhatTheLabelSelectorDoesNotSelectIsNotCached(t *testing.T) {
	web, db := versioned("a", "1", "10"), versioned("b", "2", "11")
	web.Labels = map[string]string{"app": "web"}
	o := &informer.Options{LabelSelector: "app=web", Transform: func(obj informer.Object) { obj.SetLabels(nil) }}
	for name, c := range map[string]*contradicting{
		"streamed": {first: stream(hold, added(web), added(db), listEnd("12"))},
		"listed":   {first: refuse(http.StatusBadRequest, "BadRequest"), list: list("12", web, db)},
		"watched":  {first: stream(hold, added(web), listEnd("12"), added(db))},
		"changed": {first: stream(hold, added(web), listEnd("12"),
			modified(&corev1.Node{TypeMeta: web.TypeMeta, ObjectMeta: versioned("a", "1", "15").ObjectMeta}))},
	} {
		t.Run(name, func(t *testing.T) {
			var mended atomic.Bool
			first, good := c.first, stream(hold, added(web), listEnd("30"))
			c.resumed, c.later = hold, good
			if name == "listed" {
				c.later = func(w http.ResponseWriter, r *http.Request) {
					if mended.Load() {
						good(w, r)
					} else {
						first(w, r)
					}
				}
			} else {
				c.list = refuse(http.StatusServiceUnavailable, "ServiceUnavailable")
			}
			c.inNodes(t, o, func(g *WithT, heard func() []string, cached cache) {
				defer mended.Store(false) // for the next informer
				<-time.After(time.Minute)
				mended.Store(true)
				<-time.After(5 * time.Minute)
				g.Expect(heard()).To(Equal([]string{"known a/1"}))
				g.Expect(cached.Status().Problems).To(BeEmpty())
			})
		})
	}
}
