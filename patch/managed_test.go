package patch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/homeostat/homeostat/patch"
)

// ownedFields are fields of ownedNode in every form that managed fields have.
const ownedFields = `{
	"f:metadata": {
		"f:labels": {".": {}, "f:zone": {}},
		"f:finalizers": {".": {}, "v:\"example.com/a\"": {}},
		"f:ownerReferences": {"k:{\"uid\":\"x\"}": {".": {}, "f:name": {}}}
	},
	"f:spec": {"f:taints": {}, "f:podCIDRs": {"i:0": {}}},
	"f:status": {"f:addresses": {"k:{\"type\":\"Hostname\"}": {".": {}, "f:address": {}}}}
}`

func ownedNode(version int) *corev1.Node {
	n := applied(version, "doorman", ownedFields)
	n.Labels = map[string]string{"zone": "a", "other": "a"}
	n.Finalizers = []string{"example.com/b", "example.com/a"}
	n.OwnerReferences = []metav1.OwnerReference{{UID: "w", Name: "w"}, {UID: "x", Name: "x"}}
	n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: "NoSchedule"}}
	n.Spec.PodCIDRs = []string{"10.0.0.0/24", "fd00::/64"}
	n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "h"}}
	return n
}

// manage notes that manager has written the label "other".
func manage(n *corev1.Node, manager string, operation metav1.ManagedFieldsOperationType) {
	n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:other":{}}}}`),
	})
}

// answering answers each apply with the same Node.
type answering struct {
	applying
	answer *corev1.Node
}

func (a *answering) Apply(ctx context.Context, c *nodeConfig, o metav1.ApplyOptions) (*corev1.Node, error) {
	_, err := a.applying.Apply(ctx, c, o)
	return a.answer, err
}

// Another replica may have applied something else under the same field manager,
// and given back what this one applied: the ownership is the same, the values
// are not.
func TestAnApplierRepeatsWhatHasAnotherValue(t *testing.T) {
	for name, row := range map[string]struct {
		edit  func(n *corev1.Node)
		again int
	}{
		"nothing":                    {func(*corev1.Node) {}, 0},
		"a label of others":          {func(n *corev1.Node) { n.Labels["other"] = "b" }, 0},
		"a finalizer of others":      {func(n *corev1.Node) { n.Finalizers = n.Finalizers[1:] }, 0},
		"an owner of others":         {func(n *corev1.Node) { n.OwnerReferences[0].Name = "z" }, 0},
		"what others apply":          {func(n *corev1.Node) { manage(n, "other", "Apply") }, 0},
		"what it updates":            {func(n *corev1.Node) { manage(n, "doorman", "Update") }, 0},
		"fields of a subresource":    {func(n *corev1.Node) { n.ManagedFields[0].Subresource = "status" }, 1},
		"an address of others":       {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }, 0},
		"a label":                    {func(n *corev1.Node) { n.Labels["zone"] = "b" }, 1},
		"a label that is missing":    {func(n *corev1.Node) { n.Labels = nil }, 1},
		"a finalizer":                {func(n *corev1.Node) { n.Finalizers = n.Finalizers[:1] }, 1},
		"the name of an owner":       {func(n *corev1.Node) { n.OwnerReferences[1].Name = "z" }, 1},
		"an owner that is missing":   {func(n *corev1.Node) { n.OwnerReferences = nil }, 1},
		"a list without keys":        {func(n *corev1.Node) { n.Spec.Taints[0].Value = "v" }, 1},
		"an element by its place":    {func(n *corev1.Node) { n.Spec.PodCIDRs[0] = "10.0.1.0/24" }, 1},
		"an element by its key":      {func(n *corev1.Node) { n.Status.Addresses[1].Address = "i" }, 1},
		"an element that is missing": {func(n *corev1.Node) { n.Spec.PodCIDRs = nil }, 1},
		"fields that cannot be read": {func(n *corev1.Node) { n.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := &answering{answer: ownedNode(5)}
			a := patch.NewApplier(always(server))
			o := &patch.Options{FieldManager: "doorman"}
			config := corev1apply.Node("n1").WithLabels(map[string]string{"zone": "a"})
			_, err := a.Apply(t.Context(), nil, o, config)
			g.Expect(err).NotTo(HaveOccurred())
			cached := ownedNode(7)
			row.edit(cached)
			for range 2 {
				before := cached.DeepCopy()
				_, err = a.Apply(t.Context(), cached, o, config)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(cached).To(Equal(before))
			}
			g.Expect(server.asked).To(HaveLen(1 + 2*row.again))
		})
	}
}

// What cannot be read may have changed.
func TestAnApplierRepeatsWhatTheServerListsInAFormThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	server := &answering{answer: applied(5, "doorman", "{")}
	a := patch.NewApplier(always(server))
	for _, cached := range []*corev1.Node{nil, applied(7, "doorman", "{")} {
		_, err := a.Apply(t.Context(), cached, asDoorman, zoned("a"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(server.asked).To(HaveLen(2))
}

// A restored etcd uses resourceVersions again that were used before.
func TestAnApplierBelievesAnOlderObjectOnlyForAsLongAsACacheCanBeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := &answering{answer: ownedNode(500)}
		a := patch.NewApplier(always(server))
		apply := func(cached *corev1.Node) int {
			before := len(server.asked)
			_, err := a.Apply(t.Context(), cached, asDoorman, zoned("a"))
			g.Expect(err).NotTo(HaveOccurred())
			return len(server.asked) - before
		}
		apply(nil)
		restored := ownedNode(7)
		restored.Labels["zone"] = "b"
		g.Expect(apply(restored)).To(BeZero(), "the cache may be late")
		<-time.After(time.Minute)
		g.Expect(apply(restored)).To(Equal(1))
		server.answer = ownedNode(8)
		<-time.After(time.Minute)
		g.Expect(apply(restored)).To(Equal(1), "it still differs")
		g.Expect(apply(ownedNode(8))).To(BeZero())
		<-time.After(time.Hour)
		g.Expect(apply(ownedNode(6))).To(BeZero(), "it is older, and as it should be")
	})
}

func TestAnApplierRepeatsWhatHasAnotherValueUnderTheSameResourceVersion(t *testing.T) {
	g := NewWithT(t)
	server := &answering{answer: ownedNode(5)}
	a := patch.NewApplier(always(server))
	other := ownedNode(5)
	other.Labels["zone"] = "b"
	for _, cached := range []*corev1.Node{nil, other, ownedNode(5)} {
		_, err := a.Apply(t.Context(), cached, asDoorman, zoned("a"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(server.asked).To(HaveLen(2))
}
