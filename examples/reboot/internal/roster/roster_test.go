package roster_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/roster"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
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
		"slots":     {"maxUnavailable": int64(1), "nodeSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}},
	} {
		made, err := raw.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version.String(), "kind": "RebootGroup", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		uids[name] = made.GetUID()
	}
	uids["recreated"] = "of the group before"
	for name, status := range map[string]string{"slots": `{"slots":"none"}`, "unclear": `{"slots":[{"node":"n"}]}`} {
		_, err = raw.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
		g.Expect(err).NotTo(HaveOccurred())
	}
	groups, err := api.NewClient(stage.Reach(sim.Admin()))
	g.Expect(err).NotTo(HaveOccurred())
	all, err := roster.Read(t.Context(), groups, func(name string) *api.RebootGroup {
		last := &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uids[name]}}
		last.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cached": "true"}}
		last.Status.Slots = []api.Slot{{Node: "cached"}}
		return last
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Unclear).To(ConsistOf("unclear", "recreated", "slots"))
	g.Expect(all.Unreadable).To(And(HaveLen(4), HaveKey("clear"), HaveKey("unclear"), HaveKey("recreated"), HaveKey("slots")))
	g.Expect(parts(all)).To(ConsistOf(
		"good selects all, slots: []", "clear selects a=b, slots: []", "unclear selects cached=true, slots: [n]",
		"slots selects a=b, slots: [cached]", "recreated selects what is not known, slots: []"))

	all, err = roster.Read(t.Context(), groups, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parts(all)).To(ConsistOf(
		"good selects all, slots: []", "clear selects a=b, slots: []", "unclear selects what is not known, slots: [n]",
		"slots selects a=b, slots: []", "recreated selects what is not known, slots: []"))
}

// parts describes what is known of each group.
func parts(r roster.Roster) (texts []string) {
	for _, group := range r.Groups {
		selects, nodes := "all", []string{}
		switch selector, err := rules.Selector(group); {
		case err != nil:
			selects = "what is not known"
		case !selector.Empty():
			selects = selector.String()
		}
		for _, s := range group.Status.Slots {
			nodes = append(nodes, s.Node)
		}
		texts = append(texts, fmt.Sprintf("%s selects %s, slots: %v", group.Name, selects, nodes))
	}
	return texts
}
