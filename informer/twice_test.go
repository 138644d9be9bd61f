package informer_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
)

// A gateway has made one list from pages of different moments.
func TestTheNewestStateIsCachedIfAListHasAnObjectTwice(t *testing.T) {
	older, newer := versioned("b", "2", "11"), versioned("b", "2", "14")
	recreated := versioned("b", "3", "14")
	for name, twice := range map[string][]*corev1.Node{
		"the older state last": {newer, older}, "the newer state last": {older, newer},
		"the older UID last": {recreated, older}, "the newer UID last": {older, recreated},
		"the same state twice": {newer, newer},
	} {
		t.Run(name, func(t *testing.T) {
			c := &contradicting{
				first: refuse(http.StatusBadRequest, "BadRequest"), later: hold, resumed: hold,
				list: list("20", twice[0], versioned("a", "1", "10"), twice[1]),
			}
			c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
				<-time.After(time.Minute)
				newest := twice[0]
				if twice[1].ResourceVersion == "14" {
					newest = twice[1]
				}
				g.Expect(heard()).To(Equal([]string{"known a/1", "known b/" + string(newest.UID)}))
				g.Expect(cached.Status().Objects).To(Equal(2))
				g.Expect(versionOf(cached, "b")).To(Equal("14"))
			})
		})
	}
}

// versionOf returns the resourceVersion of a cached Node.
func versionOf(cached cache, name string) string {
	key := types.NamespacedName{Name: name}
	if typed, ok := cached.(*informer.Informer[*corev1.Node]); ok {
		node, _ := typed.Get(key)
		return node.GetResourceVersion()
	}
	node, _ := cached.(*informer.Informer[*unstructured.Unstructured]).Get(key)
	return node.GetResourceVersion()
}

// It is unknown which state is newer, so the list is requested again.
func TestAListWithTwoObjectsOfOneNameIsRefused(t *testing.T) {
	for name, second := range map[string]*corev1.Node{
		"with the same resourceVersion": versioned("b", "3", "11"),
		"with one that is no number":    versioned("b", "3", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			var mended atomic.Bool
			c := &contradicting{
				first: refuse(http.StatusBadRequest, "BadRequest"), later: refuse(http.StatusBadRequest, "BadRequest"),
				resumed: hold, list: func(w http.ResponseWriter, r *http.Request) {
					items := []*corev1.Node{versioned("b", "2", "11")}
					if !mended.Load() {
						items = append(items, second)
					}
					list("20", items...)(w, r)
				},
			}
			c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
				defer mended.Store(false) // for the next informer
				<-time.After(2 * time.Minute)
				g.Expect(heard()).To(BeEmpty())
				g.Expect(cached.Status().Reason).To(ContainSubstring(`the list has "/b" twice`))
				mended.Store(true)
				<-time.After(2 * time.Minute)
				g.Expect(heard()).To(Equal([]string{"known b/2"}))
			})
		})
	}
}

// A stream of the API server delivers the changes of an object in their order,
// and its deletion before another object of its name.
func TestAStreamingListThatGoesBackIsRefused(t *testing.T) {
	older, newer := versioned("b", "2", "11"), versioned("b", "2", "14")
	for name, events := range map[string][]any{
		"the older state last":            {added(newer), added(older)},
		"the older state as a change":     {added(newer), modified(older)},
		"an older deletion":               {added(newer), deleted(older)},
		"an older state after a deletion": {added(newer), deleted(versioned("b", "2", "15")), added(older)},
		"another UID without a deletion":  {added(newer), added(versioned("b", "3", "15"))},
	} {
		t.Run(name, func(t *testing.T) {
			events = append(events, added(versioned("a", "1", "10")), listEnd("20"))
			c := &contradicting{
				first: stream(hold, events...), later: stream(hold, events...), resumed: hold,
				list: list("20", newer, versioned("a", "1", "10")),
			}
			c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
				<-time.After(5 * time.Minute)
				g.Expect(heard()).To(ConsistOf("known a/1", "known b/2"))
				g.Expect(versionOf(cached, "b")).To(Equal("14"))
				g.Expect(cached.Status().Problems).To(BeEmpty())
			})
		})
	}
	c := &contradicting{
		first: stream(hold, added(older), modified(newer), deleted(newer), added(versioned("b", "3", "15")), listEnd("20"),
			modified(versioned("b", "3", "21"))),
		later: refuse(http.StatusInternalServerError, ""), resumed: hold, list: refuse(http.StatusInternalServerError, ""),
	}
	c.inNodes(t, nil, func(g *WithT, heard func() []string, cached cache) {
		<-time.After(time.Minute)
		g.Expect(heard()).To(ConsistOf("known b/3", "updated b/3"), "what the server may stream is believed")
		g.Expect(versionOf(cached, "b")).To(Equal("21"))
	})
}
