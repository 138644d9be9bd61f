package informer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
)

// ofKind returns the Node b as a gateway has changed it: with another kind or,
// if kind is "v2", with another version.
func ofKind(kind string) *corev1.Node {
	node := versioned("b", "2", "15")
	if kind == "v2" {
		node.APIVersion = kind
	} else {
		node.Kind = kind
	}
	return node
}

// saysKind matches the error about ofKind(kind).
func saysKind(kind string) gomegatypes.GomegaMatcher {
	if kind == "v2" {
		return MatchError(ContainSubstring(`the object says that it is of version "v2", not "v1"`))
	}
	return MatchError(ContainSubstring(`the object says that it is of kind "` + kind + `", not "Node"`))
}

// mendedLater delivers a valid state of the Node after two minutes.
func mendedLater(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(2 * time.Minute):
		_ = json.NewEncoder(w).Encode(modified(versioned("b", "2", "25")))
		hold(w, r)
	case <-r.Context().Done():
	}
}

// expiredAtFirst is a server that cannot resume a watch in the first ten
// seconds of a test.
func expiredAtFirst(w http.ResponseWriter, r *http.Request) {
	if time.Now().Before(time.Date(2000, 1, 1, 0, 0, 10, 0, time.UTC)) {
		refuse(http.StatusGone, "Expired")(w, r)
	} else {
		stream(mendedLater)(w, r)
	}
}

// A gateway has mixed up the objects of two kinds.
func TestAnObjectThatSaysAnotherKindIsKeptOutAndProvesNothing(t *testing.T) {
	good := []*corev1.Node{versioned("a", "1", "10"), versioned("b", "2", "11")}
	for name, c := range map[string]struct {
		known bool // whether the cache has had the object before
		bad   func(kind string) *contradicting
	}{
		"listed": {false, func(kind string) *contradicting {
			return &contradicting{first: refuse(http.StatusBadRequest, ""), list: list("20", good[0], ofKind(kind))}
		}},
		"listed again": {true, func(kind string) *contradicting {
			return &contradicting{first: nodesAB(end), list: list("20", good[0], ofKind(kind))}
		}},
		"streamed": {false, func(kind string) *contradicting {
			events := stream(mendedLater, added(good[0]), added(ofKind(kind)), listEnd("20"))
			return &contradicting{first: events, list: list("20", good[0], ofKind(kind))}
		}},
		"changed": {true, func(kind string) *contradicting {
			return &contradicting{first: nodesAB(mendedLater, modified(ofKind(kind))), list: list("20", good[0], ofKind(kind))}
		}},
		"deleted": {true, func(kind string) *contradicting {
			return &contradicting{first: nodesAB(mendedLater, deleted(ofKind(kind))), list: list("20", good[0], ofKind(kind))}
		}},
	} {
		for _, kind := range []string{"Other", "Pod", "v2"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				x := c.bad(kind)
				x.later, x.resumed = refuse(http.StatusBadRequest, ""), stream(mendedLater)
				if name == "listed again" {
					x.resumed = expiredAtFirst
				}
				inTypedNodes(t, x, func(g *WithT, heard func() []string, in *informer.Informer[*corev1.Node]) {
					<-time.After(time.Minute)
					b := types.NamespacedName{Name: "b"}
					if c.known {
						g.Expect(heard()).To(ConsistOf("known a/1", "known b/2"))
						g.Expect(versionOf(in, "b")).To(Equal("11"), "the last good state")
					} else {
						g.Expect(heard()).To(ConsistOf("known a/1"))
						g.Expect(in.Get(b)).To(BeNil())
					}
					g.Expect(in.Unreadable(b)).To(saysKind(kind))
					for range 20 {
						g.Expect(in.IsDeleted(context.WithoutCancel(t.Context()), b)).To(BeFalse())
					}
					<-time.After(5 * time.Minute)
					g.Expect(in.Unreadable(b)).To(Succeed(), "it heals by itself")
					g.Expect(versionOf(in, "b")).To(Equal("25"))
				})
			})
		}
	}
}

// Untyped clients do not show their kind, but the lists that they return do.
func TestAnUntypedObjectThatSaysAnotherKindStopsNoOther(t *testing.T) {
	for _, kind := range []string{"Other", "Pod", "v2"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				x := &contradicting{
					first: refuse(http.StatusBadRequest, ""), later: refuse(http.StatusBadRequest, ""),
					list: list("20", versioned("a", "1", "10"), ofKind(kind)), resumed: stream(mendedLater),
				}
				client, err := dynamic.NewForConfig(&rest.Config{Host: "http://script", Transport: inProcess{x}, QPS: -1})
				g.Expect(err).NotTo(HaveOccurred())
				in := informer.For(informer.Untyped(client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))), nil)
				defer running(context.WithoutCancel(t.Context()), in)()
				<-time.After(time.Minute)
				b := types.NamespacedName{Name: "b"}
				g.Expect(in.HasSynced()).To(BeTrue())
				g.Expect(in.Snapshot().Len()).To(Equal(1))
				g.Expect(in.Unreadable(b)).To(saysKind(kind))
				g.Expect(in.IsDeleted(t.Context(), b)).To(BeFalse())
				<-time.After(5 * time.Minute)
				g.Expect(in.Unreadable(b)).To(Succeed(), "it heals by itself")
				g.Expect(in.Snapshot().Len()).To(Equal(2))
			})
		})
	}
}

// inTypedNodes calls f with informers of the server's Nodes: one with a client
// of client-go, and one with a client of package cluster.
func inTypedNodes(
	t *testing.T, x *contradicting, f func(g *WithT, heard func() []string, in *informer.Informer[*corev1.Node]),
) {
	run := func(t *testing.T, in *informer.Informer[*corev1.Node]) {
		told := &record{}
		in.Handle(told.hear)
		defer running(context.WithoutCancel(t.Context()), in)()
		f(NewWithT(t), told.heard, in)
	}
	t.Run("client-go", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x.streams.Store(0)
			client, done := clientTo("", x)
			defer done()
			run(t, informer.For(client.CoreV1().Nodes(), nil))
		})
	})
	t.Run("package cluster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x.streams.Store(0)
			g := NewWithT(t)
			reached, err := cluster.New(&rest.Config{Host: "http://script", Transport: inProcess{x}, QPS: -1}, nil)
			g.Expect(err).NotTo(HaveOccurred())
			kind, err := cluster.NewKind[*corev1.Node, *corev1.NodeList](reached,
				corev1.SchemeGroupVersion.WithResource("nodes"), func(s *runtime.Scheme) error {
					s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{})
					metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
					return nil
				})
			g.Expect(err).NotTo(HaveOccurred())
			kind.ClusterScoped()
			run(t, informer.For(kind.In(""), nil))
		})
	})
}
