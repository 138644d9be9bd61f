package patch_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
)

// sent is the body of the one request that an edit makes, or "".
func sent[T informer.Object](t *testing.T, cached T, o *patch.Options, edit func(T)) string {
	t.Helper()
	g := NewWithT(t)
	cached.SetUID("") // the body is to be the edit alone
	c := &recording[T]{answer: cached}
	_, err := patch.Merge(t.Context(), always(c), cached, o, edit)
	g.Expect(err).NotTo(HaveOccurred())
	if len(c.requests) == 0 {
		return ""
	}
	g.Expect(c.requests).To(HaveLen(1))
	return c.requests[0].body
}

// patched is what a server makes of an object by a JSON patch.
func patched[T any](t *testing.T, obj *T, body string) *T {
	t.Helper()
	g := NewWithT(t)
	before, err := json.Marshal(obj)
	g.Expect(err).NotTo(HaveOccurred())
	p, err := jsonpatch.DecodePatch([]byte(body))
	g.Expect(err).NotTo(HaveOccurred())
	after, err := p.Apply(before)
	g.Expect(err).NotTo(HaveOccurred(), body)
	out := new(T)
	g.Expect(json.Unmarshal(after, out)).To(Succeed())
	return out
}

const (
	tcp = corev1.ProtocolTCP
	udp = corev1.ProtocolUDP
)

func service(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", ResourceVersion: "4", Labels: map[string]string{"a": "1"}},
		Spec:       corev1.ServiceSpec{Ports: ports, ExternalIPs: []string{"1.1.1.1"}},
	}
}

func port(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
}

func TestAPatchRemovesAMapKeyEvenTheLastOneAndNoOther(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, service(), nil, func(s *corev1.Service) { delete(s.Labels, "a") })).
		To(MatchJSON(`{"metadata":{"labels":{"a":null}}}`))
	g.Expect(sent(t, service(), nil, func(s *corev1.Service) { s.Labels = nil })).
		To(MatchJSON(`{"metadata":{"labels":{"a":null}}}`))
	w := gadget()
	w.Labels = map[string]string{"a": "1"}
	g.Expect(sent(t, w, nil, func(w *widget) { w.Labels = nil; delete(w.Spec.Settings, "k") })).
		To(MatchJSON(`{"metadata":{"labels":{"a":null}},"spec":{"settings":{"k":null}}}`))
}

func TestAPatchDoesNotDistinguishEmptyFromAbsentWhereTheJSONDoesNot(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, &corev1.Node{}, nil, func(n *corev1.Node) {
		n.Labels, n.Spec.Taints = map[string]string{}, []corev1.Taint{}
	})).To(BeEmpty())
	g.Expect(sent(t, gadget(), nil, func(w *widget) { w.Annotations = map[string]string{} })).To(BeEmpty())
}

func TestAPatchDoesNotDistinguishEmptyFromAbsentInBuiltInKindsThatStoreNoDifference(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, &rbacv1.ClusterRole{}, nil, func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{} })).
		To(BeEmpty())
}

func TestAPatchDistinguishesEmptyFromAbsentWhereACustomKindsJSONDoes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, gadget(), nil, func(w *widget) { w.Spec.Bare = nil })).To(MatchJSON(
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"remove","path":"/spec/bare/k"},` +
			`{"op":"test","path":"/spec/bare","value":{}},{"op":"remove","path":"/spec/bare"}]`))
	w := gadget()
	w.Spec.Bare = nil
	g.Expect(sent(t, w, nil, func(w *widget) { w.Spec.Bare = map[string]string{} })).
		To(MatchJSON(`{"spec":{"bare":{}}}`))
}

func TestAPatchTellsZeroFromAbsentAsTheJSONDoes(t *testing.T) {
	g := NewWithT(t)
	zero := 0
	g.Expect(sent(t, gadget(), nil, func(w *widget) { w.Spec.Size, w.Spec.Color, w.Spec.Limit = 0, "", &zero })).
		To(MatchJSON(`{"spec":{"size":0,"color":null,"limit":0}}`))
}

func TestAPatchKeepsTheKeyOfAnEmptyValueWhichNullWouldRemove(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, &corev1.Secret{}, nil, func(s *corev1.Secret) { s.Data = map[string][]byte{"k": nil} })).
		To(MatchJSON(`{"data":{"k":""}}`))
	g.Expect(sent(t, &corev1.Secret{Data: map[string][]byte{"k": []byte("v")}}, nil,
		func(s *corev1.Secret) { s.Data["k"] = nil })).To(MatchJSON(`{"data":{"k":""}}`))
}

func TestAPatchEmptiesAList(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sent(t, service(), nil, func(s *corev1.Service) { s.Spec.ExternalIPs = nil })).
		To(MatchJSON(`[{"op":"add","path":"/metadata/resourceVersion","value":"4"},
			{"op":"test","path":"/spec/externalIPs","value":["1.1.1.1"]},{"op":"remove","path":"/spec/externalIPs"}]`))
	g.Expect(sent(t, service(port("a", 1, tcp)), nil, func(s *corev1.Service) { s.Spec.Ports = nil })).
		To(MatchJSON(`{"spec":{"ports":[{"$patch":"delete","port":1}]}}`))
	g.Expect(sent(t, gadget(), nil, func(w *widget) { w.Spec.Parts = nil })).To(MatchJSON(
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},
		{"op":"test","path":"/spec/parts/0/name","value":"a"},{"op":"test","path":"/spec/parts/0/kind","value":"x"},
		{"op":"test","path":"/spec/parts/1/name","value":"b"},{"op":"test","path":"/spec/parts/1/kind","value":"y"},
		{"op":"remove","path":"/spec/parts/1"},{"op":"remove","path":"/spec/parts/0"},
		{"op":"test","path":"/spec/parts","value":[]},{"op":"remove","path":"/spec/parts"}]`))
}

func TestAPatchDoesNotMentionWhatItDoesNotKnowSoThatANewerServersFieldSurvives(t *testing.T) {
	g := NewWithT(t)
	body := sent(t, service(port("a", 1, tcp), port("b", 2, tcp)), nil, func(s *corev1.Service) {
		s.Spec.Ports[1].Name = "c"
	})
	g.Expect(body).To(MatchJSON(`{"spec":{"ports":[{"port":2,"name":"c"}]}}`))
}

func TestAPatchReordersAListThatIsMergedByKey(t *testing.T) {
	g := NewWithT(t)
	body := sent(t, service(port("a", 1, tcp), port("b", 2, tcp)), nil, func(s *corev1.Service) {
		s.Spec.Ports[0], s.Spec.Ports[1] = s.Spec.Ports[1], s.Spec.Ports[0]
	})
	g.Expect(body).To(MatchJSON(`{"spec":{"$setElementOrder/ports":[{"port":2},{"port":1}]}}`))
}

func TestAPatchEditsUnderALockAListWhoseMergeKeyIsNotUnique(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*corev1.Service]{answer: service()}
	_, err := patch.Merge(t.Context(), always(c), service(port("dns", 53, udp), port("dns-tcp", 53, tcp)), nil,
		func(s *corev1.Service) { s.Spec.Ports[1].Name = "tcp" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].pt).To(BeEquivalentTo("application/json-patch+json"))
	g.Expect(c.requests[0].body).To(MatchJSON(`[{"op":"add","path":"/metadata/resourceVersion","value":"4"},
		{"op":"test","path":"/spec/ports/1/name","value":"dns-tcp"},
		{"op":"test","path":"/spec/ports/1/protocol","value":"TCP"},
		{"op":"test","path":"/spec/ports/1/port","value":53},
		{"op":"add","path":"/spec/ports/1/name","value":"tcp"}]`))
}

func TestAPatchRefusesAnEditThatTheEndpointWouldDrop(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*corev1.Node]{}
	_, err := patch.Merge(t.Context(), always(c), node(), nil, func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
	g.Expect(err).To(MatchError(ContainSubstring("use Status")))
	_, err = patch.Status(t.Context(), always(c), node(), nil, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	g.Expect(err).To(MatchError(ContainSubstring("spec, but the status subresource ignores it")))
	g.Expect(c.requests).To(BeEmpty())
}

func TestAPatchNeitherShowsTheManagedFieldsToTheEditNorLosesThem(t *testing.T) {
	g := NewWithT(t)
	n := node()
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	body := sent(t, n, nil, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	g.Expect(body).To(MatchJSON(`{"spec":{"unschedulable":true}}`))
	g.Expect(n.ManagedFields).To(HaveLen(1))
}

func TestStatusOfACustomKindNotesTheGenerationThatItIsAbout(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*widget]{answer: gadget()}
	_, err := patch.Status(t.Context(), always(c), gadget(), nil, func(w *widget) { w.Status.Phase = "Ready" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"3","uid":"u2"},"status":{"phase":"Ready","observedGeneration":5}}`))
}

// plain is a custom kind whose status has no conditions.
type plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status"`
}

func (p *plain) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func TestTheStatusOfACustomKindNeedsNoConditions(t *testing.T) {
	g := NewWithT(t)
	cached := &plain{ObjectMeta: gadget().ObjectMeta}
	c := &recording[*plain]{answer: cached}
	_, err := patch.Status(t.Context(), always(c), cached, nil, func(p *plain) { p.Status.Phase = "Ready" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"3","uid":"u2"},"status":{"phase":"Ready"}}`))
}

func TestStatusOfACustomKindSendsNothingOnceItHas(t *testing.T) {
	g := NewWithT(t)
	c, w := &recording[*widget]{}, gadget()
	w.Status.ObservedGeneration = 5
	g.Expect(patch.Status(t.Context(), always(c), w, nil, func(*widget) {})).To(BeIdenticalTo(w))
	g.Expect(c.requests).To(BeEmpty())
}

func TestConditionsNoteTheGenerationThatTheyAreAbout(t *testing.T) {
	g := NewWithT(t)
	long := metav1.Unix(1000, 0)
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", ObservedGeneration: 5, LastTransitionTime: long,
	}
	foreign := metav1.Condition{Type: "Foreign", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: long}
	outdated, old := ready, ready
	outdated.Type, outdated.ObservedGeneration = "Outdated", 4
	old.ObservedGeneration = 4
	stored := func(conditions ...metav1.Condition) *widget {
		w := gadget()
		w.Status = widgetStatus{ObservedGeneration: 5, Conditions: conditions}
		return w
	}
	set := func(w *widget) {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", LastTransitionTime: long,
		})
	}
	for name, c := range map[string]struct{ before, after []metav1.Condition }{
		"a new one":                 {nil, []metav1.Condition{ready}},
		"one of an old generation":  {[]metav1.Condition{old}, []metav1.Condition{ready}},
		"one that has the same":     {[]metav1.Condition{ready}, nil},
		"those of others":           {[]metav1.Condition{foreign, ready, outdated}, nil},
		"those of others beside it": {[]metav1.Condition{foreign, old, outdated}, []metav1.Condition{foreign, ready, outdated}},
	} {
		c1 := &recording[*widget]{answer: gadget()}
		_, err := patch.Status(t.Context(), always(c1), stored(c.before...), nil, set)
		g.Expect(err).NotTo(HaveOccurred())
		if c.after == nil {
			g.Expect(c1.requests).To(BeEmpty(), name)
			continue
		}
		g.Expect(c1.requests).To(HaveLen(1), name)
		sent := patched(t, stored(c.before...), c1.requests[0].body)
		g.Expect(sent.Status.Conditions).To(HaveLen(len(c.after)), name)
		for i, is := range sent.Status.Conditions {
			want := c.after[i]
			want.LastTransitionTime, is.LastTransitionTime = metav1.Time{}, metav1.Time{}
			g.Expect(is).To(Equal(want), name)
		}
	}
}
