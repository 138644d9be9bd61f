package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A list of all namespaces has the same address as a list of a kind without
// namespaces, so the server answers it.
func TestAKindOfTheWrongScopeIsNotCachedAndNamed(t *testing.T) {
	for namespaced, why := range map[bool]string{
		true:  `kind job is namespaced on the server, as in "d/a", but this program declares it cluster-scoped`,
		false: `kind job is cluster-scoped on the server, as in "a", but this program declares it namespaced`,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{{
				Group: ofJobs.Group, Version: ofJobs.Version, Resource: ofJobs.Resource, Kind: "Job", Namespaced: namespaced,
			}}})
			g.Expect(err).NotTo(HaveOccurred())
			server, space := dynamic.NewForConfigOrDie(sim.Admin()).Resource(ofJobs), ""
			if namespaced {
				space = "d"
			}
			create := func(name string) {
				_, err = server.Namespace(space).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "example.com/v1", "kind": "Job", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
				}}, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
			create("a")
			reached, err := cluster.New(sim.Config("c"), nil)
			g.Expect(err).NotTo(HaveOccurred())
			kind, err := cluster.NewKind[*job, *jobList](reached, ofJobs, addJobs)
			g.Expect(err).NotTo(HaveOccurred())
			if namespaced {
				kind.ClusterScoped()
			}
			in := informer.For(kind.In(""), nil)
			defer running(t.Context(), in)()
			<-time.After(time.Minute)
			g.Expect(in.HasSynced()).To(BeFalse(), "an optional controller waits")
			g.Expect(in.Status().Reason).To(ContainSubstring(why))

			g.Expect(server.Namespace(space).Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
			<-time.After(2 * time.Minute)
			g.Expect(in.HasSynced()).To(BeTrue(), "it heals")
			create("b") // while the cache is in use
			<-time.After(3 * time.Minute)
			g.Expect(in.Status().Objects).To(BeZero())
			g.Expect(in.Status().Problems).To(ConsistOf(HaveField("Reason", ContainSubstring("this program declares it"))))
		})
	}
}
