package patch_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
)

// sent is the body of the one request that an edit makes, or "".
func sent[T informer.Object](ctx SpecContext, cached T, o *patch.Options, edit func(T)) string {
	GinkgoHelper()
	cached.SetUID("") // the body is to be the edit alone
	c := &recording[T]{answer: cached}
	_, err := patch.Merge(ctx, always(c), cached, o, edit)
	Expect(err).NotTo(HaveOccurred())
	if len(c.requests) == 0 {
		return ""
	}
	Expect(c.requests).To(HaveLen(1))
	return c.requests[0].body
}

func service(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", ResourceVersion: "4", Labels: map[string]string{"a": "1"}},
		Spec:       corev1.ServiceSpec{Ports: ports, ExternalIPs: []string{"1.1.1.1"}},
	}
}

func port(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
}

var _ = Describe("A patch never loses anything silently", func() {
	tcp, udp := corev1.ProtocolTCP, corev1.ProtocolUDP

	It("removes a map key, also the last one, and no other", func(ctx SpecContext) {
		Expect(sent(ctx, service(), nil, func(s *corev1.Service) { delete(s.Labels, "a") })).
			To(MatchJSON(`{"metadata":{"labels":{"a":null}}}`))
		Expect(sent(ctx, service(), nil, func(s *corev1.Service) { s.Labels = nil })).
			To(MatchJSON(`{"metadata":{"labels":{"a":null}}}`))
		w := gadget()
		w.Labels = map[string]string{"a": "1"}
		Expect(sent(ctx, w, nil, func(w *widget) { w.Labels = nil; delete(w.Spec.Settings, "k") })).
			To(MatchJSON(`{"metadata":{"labels":{"a":null}},"spec":{"settings":{"k":null}}}`))
	})

	It("does not tell an empty map or list from none where the JSON does not", func(ctx SpecContext) {
		Expect(sent(ctx, &corev1.Node{}, nil, func(n *corev1.Node) {
			n.Labels, n.Spec.Taints = map[string]string{}, []corev1.Taint{}
		})).To(BeEmpty())
		Expect(sent(ctx, gadget(), nil, func(w *widget) { w.Annotations = map[string]string{} })).To(BeEmpty())
	})

	It("does not tell them apart on built-in kinds, which store no difference", func(ctx SpecContext) {
		Expect(sent(ctx, &rbacv1.ClusterRole{}, nil, func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{} })).
			To(BeEmpty())
	})

	It("tells them apart where a custom kind's JSON does", func(ctx SpecContext) {
		Expect(sent(ctx, gadget(), nil, func(w *widget) { w.Spec.Bare = nil })).To(MatchJSON(`{"spec":{"bare":null}}`))
		w := gadget()
		w.Spec.Bare = nil
		Expect(sent(ctx, w, nil, func(w *widget) { w.Spec.Bare = map[string]string{} })).
			To(MatchJSON(`{"spec":{"bare":{}}}`))
	})

	It("tells zero from absent as the JSON does", func(ctx SpecContext) {
		zero := 0
		Expect(sent(ctx, gadget(), nil, func(w *widget) { w.Spec.Size, w.Spec.Color, w.Spec.Limit = 0, "", &zero })).
			To(MatchJSON(`{"spec":{"size":0,"color":null,"limit":0}}`))
	})

	It("keeps the key of an empty value, which null would remove", func(ctx SpecContext) {
		Expect(sent(ctx, &corev1.Secret{}, nil, func(s *corev1.Secret) { s.Data = map[string][]byte{"k": nil} })).
			To(MatchJSON(`{"data":{"k":""}}`))
		Expect(sent(ctx, &corev1.Secret{Data: map[string][]byte{"k": []byte("v")}}, nil,
			func(s *corev1.Secret) { s.Data["k"] = nil })).To(MatchJSON(`{"data":{"k":""}}`))
	})

	It("empties a list", func(ctx SpecContext) {
		Expect(sent(ctx, service(), nil, func(s *corev1.Service) { s.Spec.ExternalIPs = nil })).
			To(MatchJSON(`{"spec":{"externalIPs":null}}`))
		Expect(sent(ctx, service(port("a", 1, tcp)), nil, func(s *corev1.Service) { s.Spec.Ports = nil })).
			To(MatchJSON(`{"spec":{"ports":[{"$patch":"delete","port":1}]}}`))
		Expect(sent(ctx, gadget(), nil, func(w *widget) { w.Spec.Parts = nil })).To(MatchJSON(`{"spec":{"parts":null}}`))
	})

	It("does not mention what it does not know, so that a newer server's field survives", func(ctx SpecContext) {
		body := sent(ctx, service(port("a", 1, tcp), port("b", 2, tcp)), nil, func(s *corev1.Service) {
			s.Spec.Ports[1].Name = "c"
		})
		Expect(body).To(MatchJSON(`{"spec":{"ports":[{"port":2,"name":"c"}]}}`))
	})

	It("reorders a list that is merged by key", func(ctx SpecContext) {
		body := sent(ctx, service(port("a", 1, tcp), port("b", 2, tcp)), nil, func(s *corev1.Service) {
			s.Spec.Ports[0], s.Spec.Ports[1] = s.Spec.Ports[1], s.Spec.Ports[0]
		})
		Expect(body).To(MatchJSON(`{"spec":{"$setElementOrder/ports":[{"port":2},{"port":1}]}}`))
	})

	It("replaces, under a lock, a list whose merge key is not unique", func(ctx SpecContext) {
		c := &recording[*corev1.Service]{answer: service()}
		_, err := patch.Merge(ctx, always(c), service(port("dns", 53, udp), port("dns-tcp", 53, tcp)), nil,
			func(s *corev1.Service) { s.Spec.Ports[1].Name = "tcp" })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].pt).To(BeEquivalentTo("application/merge-patch+json"))
		Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"4"},"spec":{"ports":[
			{"name":"dns","protocol":"UDP","port":53,"targetPort":0},
			{"name":"tcp","protocol":"TCP","port":53,"targetPort":0}]}}`))
	})

	It("refuses an edit that the endpoint would drop", func(ctx SpecContext) {
		c := &recording[*corev1.Node]{}
		_, err := patch.Merge(ctx, always(c), node(), nil, func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
		Expect(err).To(MatchError(ContainSubstring("use Status")))
		_, err = patch.Status(ctx, always(c), node(), nil, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		Expect(err).To(MatchError(ContainSubstring("spec, which the status subresource ignores")))
		Expect(c.requests).To(BeEmpty())
	})

	It("does not hand the managed fields to be changed, nor lose them", func(ctx SpecContext) {
		n := node()
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		body := sent(ctx, n, nil, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		Expect(body).To(MatchJSON(`{"spec":{"unschedulable":true}}`))
		Expect(n.ManagedFields).To(HaveLen(1))
	})
})

var _ = Describe("Status of a custom kind", func() {
	It("notes the generation that it is about", func(ctx SpecContext) {
		c := &recording[*widget]{answer: gadget()}
		_, err := patch.Status(ctx, always(c), gadget(), nil, func(w *widget) { w.Status.Phase = "Ready" })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].body).To(MatchJSON(
			`{"metadata":{"resourceVersion":"3","uid":"u2"},"status":{"phase":"Ready","observedGeneration":5}}`))
	})

	It("sends nothing once it has", func(ctx SpecContext) {
		c, w := &recording[*widget]{}, gadget()
		w.Status.ObservedGeneration = 5
		Expect(patch.Status(ctx, always(c), w, nil, func(*widget) {})).To(BeIdenticalTo(w))
		Expect(c.requests).To(BeEmpty())
	})
})
