package patch_test

import (
	"context"
	"errors"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/patch"
)

type nodeConfig = corev1apply.NodeApplyConfiguration

// applying answers each apply with a Node of the next resourceVersion.
type applying struct {
	asked   []metav1.ApplyOptions
	configs []*nodeConfig
	version int
	err     error
}

func (a *applying) Apply(_ context.Context, c *nodeConfig, o metav1.ApplyOptions) (*corev1.Node, error) {
	a.asked, a.configs = append(a.asked, o), append(a.configs, c)
	a.version++
	n := applied(a.version, "doorman", `{"f:metadata":{}}`)
	n.Name = *c.Name
	if c.UID != nil {
		n.UID = *c.UID
	}
	return n, a.err
}

func applied(version int, manager, fields string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u1", ResourceVersion: strconv.Itoa(version),
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}},
	}}
}

var _ = Describe("Applier", func() {
	var server *applying
	var a *patch.Applier[*nodeConfig, *corev1.Node]
	config := func(value string) *nodeConfig {
		return corev1apply.Node("n1").WithLabels(map[string]string{"zone": value})
	}
	o := &patch.Options{FieldManager: "doorman"}

	BeforeEach(func() {
		server = &applying{}
		a = patch.NewApplier(always(server))
	})

	// asks says how many requests an Apply makes.
	asks := func(ctx context.Context, cached *corev1.Node, c *nodeConfig) int {
		GinkgoHelper()
		before := len(server.asked)
		_, err := a.Apply(ctx, cached, o, c)
		Expect(err).NotTo(HaveOccurred())
		return len(server.asked) - before
	}

	It("forces its fields under the field manager", func(ctx SpecContext) {
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		Expect(server.asked[0]).To(Equal(metav1.ApplyOptions{FieldManager: "doorman", Force: true}))
	})

	It("does not repeat an unchanged request", func(ctx SpecContext) {
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		seen := applied(1, "doorman", `{"f:metadata":{}}`)
		Expect(asks(ctx, seen, config("a"))).To(BeZero())
		Expect(asks(ctx, seen, config("b"))).To(Equal(1))
	})

	It("does not repeat it while the cache is behind, nor after a change of other fields", func(ctx SpecContext) {
		server.version = 6
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		Expect(asks(ctx, applied(3, "other", `{}`), config("a"))).To(BeZero())
		Expect(asks(ctx, applied(9, "doorman", `{"f:metadata":{}}`), config("a"))).To(BeZero())
	})

	It("repeats it when somebody else took a field", func(ctx SpecContext) {
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		Expect(asks(ctx, applied(2, "doorman", `{}`), config("a"))).To(Equal(1))
	})

	It("repeats it for another object of the name, after Forget, and without a cached object", func(ctx SpecContext) {
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		other := applied(1, "doorman", `{"f:metadata":{}}`)
		other.UID = "u9"
		Expect(asks(ctx, other, config("a"))).To(Equal(1))
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		a.Forget(types.NamespacedName{Name: "n1"})
		Expect(asks(ctx, applied(3, "doorman", `{"f:metadata":{}}`), config("a"))).To(Equal(1))
	})

	It("remembers so many objects and no more", func(ctx SpecContext) {
		patch.Limit(a, 2)
		for _, name := range []string{"n1", "n2", "n3", "n1", "n2", "n3"} {
			_, err := a.Apply(ctx, nil, o, corev1apply.Node(name))
			Expect(err).NotTo(HaveOccurred())
			Expect(patch.Remembered(a)).To(BeNumerically("<=", 2))
		}
		Expect(patch.Remembered(a)).To(Equal(2))
	})

	It("remembers nothing of a failure", func(ctx SpecContext) {
		Expect(asks(ctx, nil, config("a"))).To(Equal(1))
		server.err = errors.New("broken")
		_, err := a.Apply(ctx, nil, o, config("a"))
		Expect(err).To(MatchError(ContainSubstring("broken")))
		server.err = nil
		Expect(asks(ctx, applied(1, "doorman", `{"f:metadata":{}}`), config("a"))).To(Equal(1))
	})

	It("refuses bad input before any request", func(ctx SpecContext) {
		_, err := a.Apply(ctx, nil, nil, nil)
		Expect(err).To(MatchError(ContainSubstring("nil or has no name")))
		_, err = a.Apply(ctx, nil, &patch.Options{Lock: true, Subresource: "scale"}, config("a"))
		Expect(err).To(MatchError(And(ContainSubstring("field Lock"), ContainSubstring("field Subresource"))))
		Expect(server.asked).To(BeEmpty())
	})

	It("works on fake clientsets, which have no versions and so never skip", func(ctx SpecContext) {
		applier := patch.NewApplier(patch.Cluster(fake.NewClientset().CoreV1().Nodes()))
		got, err := applier.Apply(ctx, nil, nil, config("a"))
		Expect(err).NotTo(HaveOccurred())
		got, err = applier.Apply(ctx, got, nil, config("b"))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Labels).To(HaveKeyWithValue("zone", "b"))
	})
})
