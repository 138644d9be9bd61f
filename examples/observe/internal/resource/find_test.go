package resource_test

import (
	"errors"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/examples/observe/internal/resource"
)

var watched = metav1.Verbs{"get", "list", "watch"}

// server is what a small cluster serves, in a server's order.
func server() *fakediscovery.FakeDiscovery {
	return &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
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
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{
			{Name: "widgets", SingularName: "widget", Kind: "Widget", Verbs: watched},
		}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "widgets", SingularName: "widget", Kind: "Widget", Verbs: watched},
			{Name: "svc", SingularName: "", Kind: "Odd", Verbs: watched},
		}},
	}}}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"services": "/v1 services", "service": "/v1 services", "Service": "/v1 services",
		"SERVICES": "/v1 services", "services.v1": "/v1 services", "services.v1.": "/v1 services",
		"no": "/v1 nodes", "node": "/v1 nodes",
		"events": "/v1 events", "ev": "/v1 events", "events.events.k8s.io": "events.k8s.io/v1 events",
		"event.v1.events.k8s.io": "events.k8s.io/v1 events",
		"widgets":                "example.com/v2 widgets", "widget.example.com": "example.com/v2 widgets",
		"widgets.v1.example.com": "example.com/v1 widgets",
		"svc":                    "example.com/v1 svc", // a plural comes before a short name
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := resource.Find(server(), name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Group + "/" + got.Version + " " + got.GroupVersionResource.Resource).To(Equal(want))
		})
	}
	g := NewWithT(t)
	backwards := server()
	slices.Reverse(backwards.Resources)
	g.Expect(resource.Find(backwards, "events")).To(HaveField("GroupVersionResource.Group", ""), "as kubectl does")
	g.Expect(resource.Find(server(), "svc.example.com")).To(HaveField("Kind", "Odd"))
	g.Expect(resource.Find(server(), "node")).To(HaveField("Namespaced", false))
	g.Expect(resource.Find(server(), "service")).To(HaveField("Namespaced", true))
}

func TestFindSaysWhatIsNear(t *testing.T) {
	for name, want := range map[string]string{
		"serivces":               `the server has no resource "serivces"; did you mean services?`,
		"wigdet":                 `the server has no resource "wigdet"; did you mean widgets?`,
		"gadgets":                `the server has no resource "gadgets"; did you mean widgets?`,
		"modes":                  `the server has no resource "modes"; did you mean nodes?`,
		"nores":                  `the server has no resource "nores"; did you mean nodes or notes?`,
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

// broken is a server of which some groups or all do not answer.
type broken struct {
	discovery.DiscoveryInterface
	err error
}

func (b broken) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, lists, _ := b.DiscoveryInterface.ServerGroupsAndResources()
	return groups, lists, b.err
}

func TestFindPassesOverGroupsThatAreAway(t *testing.T) {
	g := NewWithT(t)
	partly := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io"}: errors.New("503")}}
	g.Expect(resource.Find(broken{server(), partly}, "services")).To(HaveField("Kind", "Service"))
	_, err := resource.Find(broken{server(), errors.New("connection refused")}, "services")
	g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
}

func TestNames(t *testing.T) {
	NewWithT(t).Expect(resource.Names(server())).To(Equal([]string{
		"events", "events.events.k8s.io", "nodes", "services", "svc", "watched", "widgets",
	}))
}
