package controller_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// playPlainly is play with the client of the program itself: a cache behind a
// wrapped client does not decode objects one by one.
func playPlainly(t *testing.T, f func(s *stage)) {
	playOn(t, &controller.Options{}, func(w *window) controller.GroupClient { return w.Client }, f)
}

// raw are groups as the server stores them, whatever Go makes of them.
func (s *stage) raw() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(s.sim.Admin()).Resource(api.GroupVersion().WithResource(api.Resource))
}

func (s *stage) spoil(name string) {
	_, err := s.raw().Patch(s.ctx, name, types.MergePatchType, []byte(`{"spec":{"minReadySeconds":"soon"}}`), metav1.PatchOptions{})
	s.Expect(err).NotTo(HaveOccurred())
}

func (s *stage) rawHolders(group string) (nodes []string) {
	g, err := s.raw().Get(s.ctx, group, metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	slots, _, err := unstructured.NestedSlice(g.Object, "status", "slots")
	s.Expect(err).NotTo(HaveOccurred())
	for _, slot := range slots {
		nodes = append(nodes, slot.(map[string]any)["node"].(string))
	}
	return nodes
}

func selecting(node string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"name": node}}
}

// One group has what its Go type does not.
func TestAGroupThatCannotBeDecodedStopsOnlyItself(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group("bad", intstr.FromInt32(1), selecting("b"))
		s.spoil("bad")
		s.group("good", intstr.FromInt32(1), selecting("a"))
		s.asking("a", "b")
		s.pass(10 * time.Second)
		s.Expect(s.rawHolders("good")).To(Equal([]string{"a"}))
		s.Expect(s.rawHolders("bad")).To(BeEmpty())
		keys := s.controller.Control().Status(10).Keys
		s.Expect(keys).To(ContainElement(And(HaveField("Key.Name", "bad"), HaveField("Failure", ContainSubstring("minReadySeconds")))))

		_, err := s.raw().Patch(s.ctx, "bad", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.pass(10 * time.Second)
		s.Expect(s.rawHolders("bad")).To(Equal([]string{"b"}), "it heals")
	})
}

// What it selected when it could be decoded, it may still select.
func TestANodeOfAGroupThatCannotBeDecodedIsNotOfAnotherGroup(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group("bad", intstr.FromInt32(1), selecting("a"))
		s.pass(time.Second)
		s.spoil("bad")
		s.pass(time.Second)
		s.group("good", intstr.FromInt32(1), selecting("a"))
		s.asking("a")
		s.pass(10 * time.Second)
		s.Expect(s.rawHolders("good")).To(BeEmpty(), "two groups select the node")
	})
}

// It may select the node.
func TestTheBuiltInGroupIsNotCreatedBesideAGroupThatIsNotKnown(t *testing.T) {
	playPlainly(t, func(s *stage) {
		_, err := s.raw().Create(s.ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": api.GroupVersion().String(), "kind": "RebootGroup", "metadata": map[string]any{"name": "bad"},
			"spec": map[string]any{"maxUnavailable": int64(1), "minReadySeconds": "soon"},
		}}, metav1.CreateOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.asking("a")
		s.pass(time.Minute)
		all, err := s.raw().List(s.ctx, metav1.ListOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(all.Items).To(HaveLen(1))
		s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
		s.pass(10 * time.Minute)
		_, err = s.raw().Get(s.ctx, api.DefaultName, metav1.GetOptions{})
		s.Expect(err).NotTo(HaveOccurred())
	})
}

// made creates a group as it is, with a field that its Go type does not have.
func (s *stage) made(name string, spec map[string]any) {
	spec["maxUnavailable"], spec["minReadySeconds"] = int64(1), "soon"
	_, err := s.raw().Create(s.ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.GroupVersion().String(), "kind": "RebootGroup", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
}

// The controller has never seen the group as a whole, but can read its selector
// and its slots.
func TestTheDefaultGroupLeavesTheNodesOfAGroupThatCannotBeDecoded(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group(api.DefaultName, intstr.FromInt32(5), nil)
		s.made("bad", map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"name": "b"}}})
		s.asking("a", "b", "c")
		s.pass(time.Second)
		s.Expect(s.rawHolders(api.DefaultName)).To(Equal([]string{"a", "c"}))
		_, err := s.raw().Patch(s.ctx, "bad", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`), metav1.PatchOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.pass(time.Second)
		s.Expect(s.rawHolders("bad")).To(Equal([]string{"b"}), "it heals")
	})
}

func TestASlotOfAGroupThatCannotBeDecodedKeepsTheNodeFromOthers(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group(api.DefaultName, intstr.FromInt32(5), nil)
		s.node("a", nil)
		a, err := s.core.CoreV1().Nodes().Get(s.ctx, "a", metav1.GetOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.made("bad", map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"name": "x"}}})
		slots := `{"status":{"slots":[{"node":"a","nodeUID":"` + string(a.UID) + `","request":"","epoch":1}]}}`
		_, err = s.raw().Patch(s.ctx, "bad", types.MergePatchType, []byte(slots), metav1.PatchOptions{}, "status")
		s.Expect(err).NotTo(HaveOccurred())
		s.ask("a")
		s.pass(time.Minute)
		s.Expect(s.rawHolders(api.DefaultName)).To(BeEmpty())
		s.Expect(s.condition(api.DefaultName, "Waiting")).To(ContainSubstring("a: RebootGroup bad still holds a slot for it"))
		s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
		s.pass(2 * time.Minute)
		s.Expect(s.rawHolders(api.DefaultName)).To(Equal([]string{"a"}), "it heals")
	})
}

// Which nodes the group selects is not known. A node that a different group
// selects certainly belongs to that one.
func TestTheNodesOfTheDefaultGroupWaitWhileASelectorCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(s *stage){
		"not decoded": func(s *stage) { s.made("bad", map[string]any{"nodeSelector": "role=web"}) },
		"without values": func(s *stage) {
			s.group("bad", intstr.FromInt32(1), &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "role", Operator: metav1.LabelSelectorOpIn},
			}})
		},
	} {
		for made, before := range map[string]bool{"": false, ", with the built-in group": true} {
			t.Run(name+made, func(t *testing.T) {
				playPlainly(t, func(s *stage) {
					if before {
						s.group(api.DefaultName, intstr.FromInt32(1), nil)
					}
					s.group("web", intstr.FromInt32(1), selecting("c"))
					spoil(s)
					s.asking("a", "c")
					s.pass(time.Minute)
					s.Expect(s.rawHolders("web")).To(Equal([]string{"c"}))
					s.Expect(s.rawHolders(api.DefaultName)).To(BeEmpty())
					s.Expect(s.condition(api.DefaultName, "Waiting")).To(And(HavePrefix("True NodesHeldBack"),
						ContainSubstring("a: RebootGroup bad may select it: its spec.nodeSelector or its slots cannot be read")))
					s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
					s.pass(2 * time.Minute)
					s.Expect(s.rawHolders(api.DefaultName)).To(Equal([]string{"a"}), "it heals")
				})
			})
		}
	}
}

func TestADrainOfTheDefaultGroupGoesOnWhileASelectorCannotBeRead(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group(api.DefaultName, intstr.FromInt32(1), nil)
		s.asking("b")
		s.pass(time.Second)
		s.change("b", accepted(`"drained":false`))
		s.pass(time.Second)
		s.made("bad", map[string]any{"nodeSelector": "role=web"})
		s.pass(2 * time.Minute)
		s.Expect(s.state("b").InProgress).NotTo(BeNil())
		s.Expect(s.rawHolders(api.DefaultName)).To(Equal([]string{"b"}))
	})
}

// The cache does not have the group that cannot be decoded. So a repetition of
// the reboot of a seems due in the cache, and is not due in live reads, for as
// long as the group exists.
func TestASlotThatOnlySeemsDueDoesNotStopTheOthers(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group(api.DefaultName, intstr.FromInt32(2), nil)
		s.asking("a")
		s.pass(time.Second)
		s.asking("b")
		s.pass(time.Second)
		s.change("b", accepted(`"drained":false`))
		s.patch("a", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status")
		s.change("a", map[string]any{
			protocol.Now: nil, protocol.LastReboot: `{"request":"r","epoch":1,"fromBootID":"b0","toBootID":"b2","result":"rebooted"}`,
		})
		s.pass(time.Second)
		s.made("bad", map[string]any{"nodeSelector": "role=web"})
		s.change("a", map[string]any{protocol.Needed: "again"})
		s.pass(time.Minute)
		s.change("b", accepted(`"drained":true,"try":1,"waits":true`))
		s.pass(2 * time.Minute)
		s.Expect(s.state("b").Permit).NotTo(BeNil())
		s.pass(time.Hour)
		s.Expect(s.condition(api.DefaultName, "Stuck")).To(HavePrefix("True"))
		s.Expect(s.state("a").Now).To(BeNil())
		s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
		s.pass(2 * time.Minute)
		s.Expect(s.state("a").Now).NotTo(BeNil(), "it heals")
	})
}

// It was never in the cache.
func TestABuiltInGroupThatCannotBeDecodedIsCreatedAfterItsDeletion(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.made(api.DefaultName, map[string]any{"nodeSelector": "role=web"})
		s.asking("a")
		s.pass(time.Minute)
		s.Expect(s.raw().Delete(s.ctx, api.DefaultName, metav1.DeleteOptions{})).To(Succeed())
		s.pass(2 * time.Minute)
		s.Expect(s.rawHolders(api.DefaultName)).To(Equal([]string{"a"}), "it heals")
	})
}

// The group lost its selector. That it holds a slot for the node is certain.
func TestTheSlotsOfAGroupWhoseSelectorCannotBeReadCount(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group("good", intstr.FromInt32(5), selecting("a"))
		s.node("a", nil)
		a, err := s.core.CoreV1().Nodes().Get(s.ctx, "a", metav1.GetOptions{})
		s.Expect(err).NotTo(HaveOccurred())
		s.made("bad", map[string]any{"nodeSelector": "role=web"})
		slots := `{"status":{"slots":[{"node":"a","nodeUID":"` + string(a.UID) + `","request":"","epoch":1}]}}`
		_, err = s.raw().Patch(s.ctx, "bad", types.MergePatchType, []byte(slots), metav1.PatchOptions{}, "status")
		s.Expect(err).NotTo(HaveOccurred())
		s.ask("a")
		s.pass(time.Minute)
		s.Expect(s.rawHolders("good")).To(BeEmpty())
		s.Expect(s.condition("good", "Waiting")).To(ContainSubstring("a: RebootGroup bad still holds a slot for it"))
		s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
		s.pass(2 * time.Minute)
		s.Expect(s.rawHolders("good")).To(Equal([]string{"a"}), "it heals")
	})
}

// The group lost its slots. That it selects the node, too, is certain.
func TestTheSelectorOfAGroupWhoseSlotsCannotBeReadCounts(t *testing.T) {
	playPlainly(t, func(s *stage) {
		s.group("good", intstr.FromInt32(5), selecting("a"))
		s.made("bad", map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"name": "a"}}})
		_, err := s.raw().Patch(s.ctx, "bad", types.MergePatchType, []byte(`{"status":{"slots":"none"}}`), metav1.PatchOptions{}, "status")
		s.Expect(err).NotTo(HaveOccurred())
		s.asking("a")
		s.pass(time.Minute)
		s.Expect(s.rawHolders("good")).To(BeEmpty())
		s.Expect(s.raw().Delete(s.ctx, "bad", metav1.DeleteOptions{})).To(Succeed())
		s.pass(2 * time.Minute)
		s.Expect(s.rawHolders("good")).To(Equal([]string{"a"}), "it heals")
	})
}
