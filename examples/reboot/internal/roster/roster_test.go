package roster_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/roster"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
)

// What can be read of a group counts. The last state that is known counts for
// the rest, unless the group was recreated.
func TestAGroupThatCannotBeDecodedHasWhatCanBeRead(t *testing.T) {
	g := NewWithT(t)
	version := api.GroupVersion()
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
		{Group: version.Group, Version: version.Version, Resource: api.Resource, Kind: "RebootGroup", Status: true},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	raw := dynamic.NewForConfigOrDie(sim.Admin()).Resource(version.WithResource(api.Resource))
	uids := map[string]types.UID{}
	for name, spec := range map[string]map[string]any{
		"good":      {"maxUnavailable": int64(1)},
		"clear":     {"maxUnavailable": int64(1), "minReadySeconds": "soon", "nodeSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}},
		"unclear":   {"maxUnavailable": int64(1), "nodeSelector": "a=b"},
		"recreated": {"maxUnavailable": int64(1), "nodeSelector": "a=b"},
	} {
		made, err := raw.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version.String(), "kind": "RebootGroup", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		uids[name] = made.GetUID()
	}
	uids["recreated"] = "of the group before"
	groups, err := api.NewClient(stage.Reach(sim.Admin()))
	g.Expect(err).NotTo(HaveOccurred())
	all, err := roster.Read(t.Context(), groups, func(name string) *api.RebootGroup {
		return &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uids[name], Labels: map[string]string{"cached": "true"}}}
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Unclear).To(ConsistOf("unclear", "recreated"))
	g.Expect(all.Unreadable).To(And(HaveLen(3), HaveKey("clear"), HaveKey("unclear"), HaveKey("recreated")))
	g.Expect(all.Groups).To(ConsistOf(
		HaveField("Name", "good"),
		And(HaveField("Name", "clear"), HaveField("Spec.NodeSelector.MatchLabels", HaveKeyWithValue("a", "b")), HaveField("Labels", BeEmpty())),
		And(HaveField("Name", "unclear"), HaveField("Labels", HaveKey("cached")))))

	all, err = roster.Read(t.Context(), groups, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Groups).To(HaveLen(2))
}
