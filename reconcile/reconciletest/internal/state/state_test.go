package state_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

func TestANameIsGeneratedOnlyIfTheServerHasMadeIt(t *testing.T) {
	long := strings.Repeat("x", 60)
	for name, row := range map[string]struct {
		generateName string
		want         bool
	}{
		"web-bx7zq":         {"web-", true},
		"web-0":             {"web-", false}, // of a StatefulSet, which gives both
		"web-first":         {"web-", false}, // the server does not use the letter i
		"web":               {"", false},
		"other-bx7zq":       {"web-", false},
		long[:58] + "bx7zq": {long, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			o.SetName(name)
			o.SetGenerateName(row.generateName)
			prefix, ok := state.Generated(o)
			g := gomega.NewWithT(t)
			g.Expect(prefix).To(gomega.Equal(row.generateName))
			g.Expect(ok).To(gomega.Equal(row.want))
		})
	}
}

// A program may have a kind called Event or Lease itself.
func TestEventsAndLeasesOfOtherGroupsAreCompared(t *testing.T) {
	g := gomega.NewWithT(t)
	for text, ignored := range map[string]bool{
		"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true,
		"events.example.com": false, "leases.example.com": false, "leases": false, "pods": false,
	} {
		g.Expect(state.Ignored(schema.ParseGroupResource(text))).To(gomega.Equal(ignored), text)
	}
}

func conditions(types ...string) map[string]any {
	var list []any
	for _, kind := range types {
		list = append(list, map[string]any{"type": kind, "status": "True", "lastProbeTime": "now " + kind})
	}
	return map[string]any{"status": map[string]any{"conditions": list}, "metadata": map[string]any{"name": "a"}}
}

func stateOf(o map[string]any, ignore *state.Ignore) state.State {
	return state.New([]state.Located{{Resource: "sites.example.com", Object: &unstructured.Unstructured{Object: o}}}, ignore)
}

func TestTheOrderOfConditionsIsNoDifference(t *testing.T) {
	g := gomega.NewWithT(t)
	one, other := conditions("Ready", "Synced"), conditions("Synced", "Ready")
	g.Expect(stateOf(one, nil).Diff(stateOf(other, nil), nil)).To(gomega.BeEmpty())
	g.Expect(stateOf(one, nil)).To(gomega.HaveKeyWithValue("sites.example.com a: status.conditions[Synced].status", "True"))

	more := conditions("Ready")
	g.Expect(stateOf(one, nil).Diff(stateOf(more, nil), nil)).To(gomega.HaveEach(gomega.ContainSubstring("[Synced]")))
	twice := conditions("Ready", "Ready") // the elements have no unique names, so their indices count
	g.Expect(stateOf(twice, nil)).To(gomega.HaveKey("sites.example.com a: status.conditions[1].status"))

	// In a spec the order matters.
	spec := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": one["status"]}
	swapped := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": other["status"]}
	g.Expect(stateOf(spec, nil).Diff(stateOf(swapped, nil), nil)).NotTo(gomega.BeEmpty())
}

func TestAConditionIsIgnoredByItsType(t *testing.T) {
	for _, entry := range []string{"status.conditions[Ready].lastProbeTime", "status.conditions[*].lastProbeTime"} {
		t.Run(entry, func(t *testing.T) {
			g, ignore := gomega.NewWithT(t), state.NewIgnore(entry)
			old, fresh := conditions("Ready"), conditions("Ready")
			fresh["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["lastProbeTime"] = "later"
			g.Expect(stateOf(old, ignore).Diff(stateOf(fresh, ignore), nil)).To(gomega.BeEmpty())
			g.Expect(ignore.Matters("sites.example.com", &unstructured.Unstructured{Object: old},
				&unstructured.Unstructured{Object: fresh})).To(gomega.BeFalse())
			g.Expect(ignore.Matters("sites.example.com", &unstructured.Unstructured{Object: conditions("Ready", "Synced")},
				&unstructured.Unstructured{Object: conditions("Synced", "Ready")})).To(gomega.BeTrue(), "it is a write")
		})
	}
}

// The server chooses addresses and ports, which differ between runs.
func TestAddressesAndPortsOfServicesAreNoDifference(t *testing.T) {
	g := gomega.NewWithT(t)
	service := func(ip string, port int64) state.State {
		return state.New([]state.Located{{Resource: "services", Object: &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "d", "name": "a"},
			"spec": map[string]any{
				"clusterIP": ip, "clusterIPs": []any{ip},
				"ports": []any{map[string]any{"port": int64(80), "nodePort": port}},
			},
		}}}}, nil)
	}
	g.Expect(service("10.0.0.1", 30001).Diff(service("10.0.0.2", 30002), nil)).To(gomega.BeEmpty())
	g.Expect(service("10.0.0.1", 30001).Diff(service("None", 30001), nil)).NotTo(gomega.BeEmpty())
	g.Expect(service("10.0.0.1", 30001).Diff(service("10.0.0.1", 0), nil)).NotTo(gomega.BeEmpty())
}

// Labels distinguish an object with a generated name from others; a label of
// another client does not make it a different object.
func TestTheLabelOfAnotherClientIsNoDifference(t *testing.T) {
	g := gomega.NewWithT(t)
	labelled := func(keys ...string) state.State {
		labels := map[string]any{"app": "web"}
		for _, key := range keys {
			labels[key] = "yes"
		}
		return stateOf(map[string]any{"metadata": map[string]any{"name": "x", "labels": labels}}, state.NewIgnore("metadata.name"))
	}
	g.Expect(labelled(state.RivalKey).Diff(labelled(), nil)).To(gomega.BeEmpty())
	g.Expect(labelled("other").Diff(labelled(), nil)).NotTo(gomega.BeEmpty())
}

// Each run has its own resourceVersions. Only an object's current
// resourceVersion at rest is normalized, and only as a whole value.
func TestResourceVersionsOfObjectsAreNormalized(t *testing.T) {
	world := func(version, carried string) state.State {
		return state.New([]state.Located{
			{Resource: "configmaps", Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "a", "resourceVersion": version},
			}}},
			{Resource: "configmaps", Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "b", "resourceVersion": "1" + version},
			}}},
			{Resource: "secrets", Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "c"}, "data": map[string]any{"of": carried},
			}}},
		}, nil)
	}
	for name, row := range map[string]struct {
		have, want state.State
		same       bool
	}{
		"that of the same object":      {world("7", "7"), world("5", "5"), true},
		"an old one":                   {world("7", "6"), world("5", "5"), false},
		"an old one in both":           {world("7", "6"), world("5", "4"), false},
		"that of another object":       {world("7", "17"), world("5", "5"), false},
		"a part":                       {world("7", "v7"), world("5", "v5"), false},
		"a number that happens to be":  {world("7", "5"), world("5", "5"), true},
		"a number that happened to be": {world("5", "5"), world("7", "5"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			expected := gomega.BeEmpty()
			if !row.same {
				expected = gomega.Not(expected)
			}
			g.Expect(row.have.Diff(row.want, nil)).To(expected)
			g.Expect(row.have.Mask(row.want)).To(expected)
		})
	}
}

// Each run has its own UIDs, also in names that are derived from them.
func TestAUIDInATextIsComparedByItsObject(t *testing.T) {
	g := gomega.NewWithT(t)
	world := func(uid, of string) state.State {
		return state.New([]state.Located{
			{Resource: "persistentvolumes", Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "pvc-" + of}, "spec": map[string]any{"path": "/disks/" + of + "/data"},
			}}},
			{Resource: "secrets", Object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "a", "uid": uid},
			}}},
		}, nil)
	}
	const one, other = "0f2c53ea-7e2a-4d6e-8a3e-5f0a6c6f3c01", "7b1f53ea-7e2a-4d6e-8a3e-5f0a6c6f3c02"
	g.Expect(world(one, one).Diff(world(other, other), nil)).To(gomega.BeEmpty())
	g.Expect(world(one, one)).To(gomega.HaveKeyWithValue(
		"persistentvolumes pvc-uid of secrets a: spec.path", "/disks/uid of secrets a/data"))
	g.Expect(world(one, one).Diff(world(one, other), nil)).NotTo(gomega.BeEmpty(), "that of no object")
}
