package resource_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/homeostat/homeostat/examples/observe/internal/resource"
)

var watched = metav1.Verbs{"get", "list", "watch"}

// cluster is the discovery of a server: its groups in the server's order, and
// the lists of their resources in no order at all, as client-go returns them.
type cluster struct {
	discovery.DiscoveryInterface

	lists []*metav1.APIResourceList // in the server's order, the preferred version of a group first
	err   error
}

func (c cluster) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	var groups []*metav1.APIGroup
	for _, list := range c.lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: gv.Version}
		i := slices.IndexFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == gv.Group })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &metav1.APIGroup{Name: gv.Group, PreferredVersion: v})
		}
		groups[i].Versions = append(groups[i].Versions, v)
	}
	lists := slices.Clone(c.lists)
	rand.Shuffle(len(lists), func(i, j int) { lists[i], lists[j] = lists[j], lists[i] })
	return groups, lists, c.err
}

// server is a small cluster.
func server() cluster {
	widgets := []metav1.APIResource{{Name: "widgets", SingularName: "widget", Kind: "Widget", Verbs: watched}}
	return cluster{lists: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, ShortNames: []string{"svc"}, Verbs: watched},
			{Name: "services/status", Kind: "Service", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			{Name: "events", SingularName: "event", Kind: "Event", Namespaced: true, ShortNames: []string{"ev"}, Verbs: watched},
			{Name: "nodes", SingularName: "node", Kind: "Node", ShortNames: []string{"no"}, Verbs: watched},
			{Name: "notes", SingularName: "note", Kind: "Note", Verbs: metav1.Verbs{"get"}},
			{Name: "listed", SingularName: "listed", Kind: "Listed", Verbs: metav1.Verbs{"list"}},
			{Name: "watched", SingularName: "watched", Kind: "Watched", Verbs: metav1.Verbs{"watch"}},
			{Name: "bindings", SingularName: "binding", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "events", SingularName: "event", Kind: "Event", Namespaced: true, ShortNames: []string{"ev"}, Verbs: watched},
		}},
		{GroupVersion: "autoscaling/v2", APIResources: []metav1.APIResource{
			{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"}, Verbs: watched},
		}},
		{GroupVersion: "autoscaling/v1", APIResources: []metav1.APIResource{
			{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, ShortNames: []string{"hpa"}, Verbs: watched},
			{Name: "olds", SingularName: "old", Kind: "Old", Verbs: watched},
		}},
		{GroupVersion: "networking.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "ingresses", SingularName: "ingress", Kind: "Ingress", Namespaced: true, ShortNames: []string{"ing"}, Verbs: watched},
		}},
		{GroupVersion: "aaa.example.com/v1", APIResources: []metav1.APIResource{
			{Name: "ingresses", SingularName: "ingress", Kind: "Ingress", Namespaced: true, ShortNames: []string{"ing", "gad"}, Verbs: watched},
			{Name: "gizmos", SingularName: "gizmo", Kind: "Gizmo", Verbs: watched},
		}},
		{GroupVersion: "example.com/v2", APIResources: widgets},
		{GroupVersion: "example.com/v1", APIResources: append([]metav1.APIResource{
			{Name: "svc", SingularName: "", Kind: "Odd", Verbs: watched},
			{Name: "gizmos", SingularName: "gizmo", Kind: "Gizmo", Verbs: watched},
		}, widgets...)},
		{GroupVersion: "example.com/v3alpha1", APIResources: []metav1.APIResource{
			{Name: "gizmos", SingularName: "gizmo", Kind: "Gizmo", Verbs: watched},
		}},
	}}
}

// starts is how often a result that must be the same at each start is tried.
const starts = 50

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"services": "/v1 services", "service": "/v1 services", "Service": "/v1 services",
		"SERVICES": "/v1 services", "services.v1": "/v1 services", "services.v1.": "/v1 services",
		"no": "/v1 nodes", "node": "/v1 nodes",
		"events": "/v1 events", "ev": "/v1 events", "events.events.k8s.io": "events.k8s.io/v1 events",
		"event.v1.events.k8s.io": "events.k8s.io/v1 events",
		"widgets":                "example.com/v2 widgets", "widget.example.com": "example.com/v2 widgets",
		"widgets.v1.example.com":     "example.com/v1 widgets",
		"svc":                        "example.com/v1 svc", // a plural comes before a short name
		"hpa":                        "autoscaling/v2 horizontalpodautoscalers",
		"hpa.v1.autoscaling":         "autoscaling/v1 horizontalpodautoscalers",
		"olds":                       "autoscaling/v1 olds",            // the preferred version does not have it
		"ingresses":                  "networking.k8s.io/v1 ingresses", // Kubernetes' own, though another is first by name
		"ing":                        "networking.k8s.io/v1 ingresses",
		"gizmos.example.com":         "example.com/v1 gizmos",
		"gizmo.v3alpha1.example.com": "example.com/v3alpha1 gizmos",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for range starts {
				got, err := resource.Find(server(), name)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Group + "/" + got.Version + " " + got.GroupVersionResource.Resource).To(Equal(want))
			}
		})
	}
	g := NewWithT(t)
	backwards := server()
	slices.Reverse(backwards.lists)
	g.Expect(resource.Find(backwards, "events")).To(HaveField("GroupVersionResource.Group", ""), "as kubectl does")
	g.Expect(resource.Find(server(), "svc.example.com")).To(HaveField("Kind", "Odd"))
	g.Expect(resource.Find(server(), "node")).To(HaveField("Namespaced", false))
	g.Expect(resource.Find(server(), "service")).To(HaveField("Namespaced", true))
}

func TestFindDoesNotChooseBetweenGroupsThatAreNotKubernetesOwn(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"gizmos", "gizmo", "Gizmo"} {
		for range starts {
			_, err := resource.Find(server(), name)
			g.Expect(err).To(Equal(&resource.AmbiguousError{Name: name, Choices: []string{
				"gizmos.v1.aaa.example.com", "gizmos.v1.example.com",
			}}))
		}
	}
	_, err := resource.Find(server(), "gizmos")
	g.Expect(err).To(MatchError(
		`resource "gizmos" is ambiguous: choose gizmos.v1.aaa.example.com or gizmos.v1.example.com`))
	g.Expect(resource.Find(server(), "gizmos.v1.aaa.example.com")).To(HaveField("Group", "aaa.example.com"))
	backwards := server()
	slices.Reverse(backwards.lists)
	_, err = resource.Find(backwards, "gizmos")
	g.Expect(err).To(HaveField("Choices", Equal([]string{"gizmos.v1.aaa.example.com", "gizmos.v3alpha1.example.com"})), "sorted")
}

func TestFindSuggestsSimilarNames(t *testing.T) {
	for name, want := range map[string]string{
		"serivces":               `the server has no resource "serivces"; did you mean services?`,
		"wigdet":                 `the server has no resource "wigdet"; did you mean widgets?`,
		"gadgets":                `the server has no resource "gadgets"; did you mean widgets?`,
		"modes":                  `the server has no resource "modes"; did you mean nodes?`,
		"nores":                  `the server has no resource "nores"; did you mean nodes or notes?`,
		"vice":                   `the server has no resource "vice"`, // which services have in the middle
		"x":                      `the server has no resource "x"`,
		"completelydiffrent":     `the server has no resource "completelydiffrent"`,
		"services.apps":          `the server has no resource "services.apps"; did you mean services?`,
		"widgets.v9.example.com": `the server has no resource "widgets.v9.example.com"; did you mean widgets?`,
		"bindings":               `resource "bindings" cannot be observed: the server does not list and watch bindings`,
		"listed":                 `resource "listed" cannot be observed: the server does not list and watch listed`,
		"watched":                `resource "watched" cannot be observed: the server does not list and watch watched`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resource.Find(server(), name)
			NewWithT(t).Expect(err).To(MatchError(want))
		})
	}
}

// silence is server with a group of an aggregated API that does not answer.
func silence() cluster {
	partly := server()
	partly.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
		{Group: "silent.example.com", Version: "v1"}: errors.New("503"),
	}}
	return partly
}

func TestANameIsDecidedOnlyIfNoSilentGroupCouldWinOrCompete(t *testing.T) {
	for name, decided := range map[string]bool{
		"services": true, "widgets.example.com": true, "widgets.v1.example.com": true, "services.v1.": true, "services.v1": true,
		"widgets": false, "service": false, "svc": false, "gadgets": false, "horizontalpodautoscalers": false,
		"widgets.silent.example.com": false, "widgets.v1.silent.example.com": false,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := resource.Find(silence(), name)
			if decided {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring("silent.example.com/v1 does not answer")))
			g.Expect(err).NotTo(MatchError(ContainSubstring("has no resource")))
		})
	}
	_, err := resource.Find(silence(), "widgets.other.example.com")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("has no resource")))
}

// client-go takes a status 404 for /api or /apis as an answer without groups.
func TestADiscoveryWithoutTheCoreOrAllOtherGroupsIsNoAnswer(t *testing.T) {
	for name, keep := range map[string]func(*metav1.APIResourceList) bool{
		"the core alone":   func(l *metav1.APIResourceList) bool { return l.GroupVersion == "v1" },
		"without the core": func(l *metav1.APIResourceList) bool { return l.GroupVersion != "v1" },
	} {
		t.Run(name, func(t *testing.T) {
			s := server()
			s.lists = slices.DeleteFunc(s.lists, func(l *metav1.APIResourceList) bool { return !keep(l) })
			_, err := resource.Find(s, "widgets")
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("incomplete")))
		})
	}
}

func TestGroupsThatAreAwayAreNamed(t *testing.T) {
	g := NewWithT(t)
	away := server()
	away.err = errors.New("connection refused")
	_, err := resource.Find(away, "services")
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
	_, err = resource.Names(away)
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
}

func TestNames(t *testing.T) {
	NewWithT(t).Expect(resource.Names(server())).To(Equal([]string{
		"events", "events.events.k8s.io", "gizmos.aaa.example.com", "gizmos.example.com", "horizontalpodautoscalers",
		"ingresses", "ingresses.aaa.example.com", "nodes", "olds", "services", "svc", "watched", "widgets",
	}))
}
