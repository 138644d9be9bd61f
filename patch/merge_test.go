package patch_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/patch"
)

// request is what a recording client was asked.
type request struct {
	name, manager, body string
	pt                  types.PatchType
	dryRun, sub         []string
}

// always returns the client c whatever the namespace.
func always[C any](c C) func(string) C { return func(string) C { return c } }

// recording answers every patch with answer or err and remembers it.
type recording[T informer.Object] struct {
	requests []request
	answer   T
	err      error
}

func (r *recording[T]) Patch(
	_ context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string,
) (T, error) {
	r.requests = append(r.requests, request{
		name: name, manager: o.FieldManager, body: string(data), pt: pt, dryRun: o.DryRun, sub: sub,
	})
	return r.answer, r.err
}

// written records what a turn was told.
type written struct{ wrote, deleted []string }

func (w *written) Wrote(o metav1.Object) {
	w.wrote = append(w.wrote, o.GetName()+"@"+o.GetResourceVersion())
}
func (w *written) Deleted(o metav1.Object) { w.deleted = append(w.deleted, o.GetName()) }
func (w *written) FieldManager() string    { return "doorman" }

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "u1", ResourceVersion: "7",
			Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "x"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

var _ = Describe("Merge", func() {
	var c *recording[*corev1.Node]
	var cached *corev1.Node

	BeforeEach(func() {
		cached = node()
		c = &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "8"}}}
	})

	It("sends only what the edit changed and leaves the cached object alone", func(ctx SpecContext) {
		got, err := patch.Merge(ctx, always(c), cached, nil, func(n *corev1.Node) {
			n.Annotations["reboot"] = "now"
			n.Spec.Unschedulable = true
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.ResourceVersion).To(Equal("8"))
		Expect(cached).To(Equal(node()))
		Expect(c.requests).To(HaveLen(1))
		Expect(c.requests[0].pt).To(Equal(types.StrategicMergePatchType))
		Expect(c.requests[0].manager).To(Equal(patch.DefaultFieldManager))
		Expect(c.requests[0].body).To(MatchJSON(
			`{"metadata":{"uid":"u1","annotations":{"reboot":"now"}},"spec":{"unschedulable":true}}`))
	})

	It("sends nothing when nothing changed", func(ctx SpecContext) {
		got, err := patch.Merge(ctx, always(c), cached, nil, func(n *corev1.Node) { n.Labels["zone"] = "a" })
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(BeIdenticalTo(cached))
		Expect(c.requests).To(BeEmpty())
	})

	It("puts the locked fields into the patch", func(ctx SpecContext) {
		_, err := patch.Merge(ctx, always(c), cached, &patch.Options{Lock: true}, func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, always(c), cached, &patch.Options{Lock: true}, func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.0.0/8" })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"7","uid":"u1","labels":{"b":"c"}}}`))
		Expect(c.requests[1].body).To(MatchJSON(
			`{"metadata":{"resourceVersion":"7","uid":"u1"},"spec":{"podCIDR":"10.0.0.0/8"}}`))
	})

	It("quotes a version as JSON does, whatever a fake has made of it", func(ctx SpecContext) {
		cached.ResourceVersion = "a\x01\"é"
		lock := &patch.Options{Lock: true}
		_, err := patch.Merge(ctx, always(c), cached, lock, func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"a\u0001\"é","uid":"u1","labels":{"b":"c"}}}`))
	})

	It("tells the turn what it wrote, and uses the turn's field manager", func(ctx SpecContext) {
		var w written
		_, err := patch.Merge(ownwrites.NewContext(ctx, &w), always(c), cached, nil, func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).NotTo(HaveOccurred())
		Expect(w.wrote).To(Equal([]string{"n1@8"}))
		Expect(c.requests[0].manager).To(Equal("doorman"))
	})

	It("does not report a dry run as written", func(ctx SpecContext) {
		var w written
		_, err := patch.Merge(ownwrites.NewContext(ctx, &w), always(c), cached, &patch.Options{DryRun: true},
			func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].dryRun).To(Equal([]string{metav1.DryRunAll}))
		Expect(w.wrote).To(BeEmpty())
	})

	It("hands a conflict on as a value", func(ctx SpecContext) {
		c.err = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("changed"))
		_, err := patch.Merge(ctx, always(c), cached, nil, func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).To(Satisfy(patch.IsStale))
		Expect(err).To(MatchError(ContainSubstring(`patching Node "/n1"`)))
	})

	It("makes a conflict of a refused UID", func(ctx SpecContext) {
		c.err = &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Field: "metadata.uid", Type: metav1.CauseTypeFieldValueInvalid},
			}},
		}}
		_, err := patch.Merge(ctx, always(c), cached, nil,
			func(n *corev1.Node) { n.Labels["b"] = "c" })
		Expect(err).To(Satisfy(apierrors.IsConflict))
	})

	DescribeTable("refuses bad input before any request",
		func(ctx SpecContext, want string, o *patch.Options, edit func(*corev1.Node)) {
			cached.ResourceVersion = ""
			_, err := patch.Merge(ctx, always(c), cached, o, edit)
			Expect(err).To(MatchError(ContainSubstring(want)))
			Expect(c.requests).To(BeEmpty())
		},
		Entry("no edit", "must not be nil", nil, nil),
		Entry("another name", `metadata.name from "n1" to "n2"`, nil, func(n *corev1.Node) { n.Name = "n2" }),
		Entry("another namespace", `metadata.namespace`, nil, func(n *corev1.Node) { n.Namespace = "x" }),
		Entry("another UID", `metadata.uid from "u1"`, nil, func(n *corev1.Node) { n.UID = "x" }),
		Entry("another kind", `changes kind from "" to "Pod"`, nil, func(n *corev1.Node) { n.Kind = "Pod" }),
		Entry("another version", `metadata.resourceVersion`, nil, func(n *corev1.Node) { n.ResourceVersion = "x" }),
		Entry("nothing to lock on", "no metadata.resourceVersion to lock on",
			&patch.Options{Lock: true}, func(n *corev1.Node) { n.Labels["b"] = "c" }),
		Entry("a patch that is too large", "a server reads at most", nil,
			func(n *corev1.Node) { n.Annotations["a"] = strings.Repeat("a", patch.MaxBytes) }),
		Entry("a long field manager", "at most 128",
			&patch.Options{FieldManager: strings.Repeat("m", 129)}, func(*corev1.Node) {}),
		Entry("a field manager with a line break", "cannot be printed",
			&patch.Options{FieldManager: "a\nb"}, func(*corev1.Node) {}),
		Entry("a subresource that is a path", "not one path segment",
			&patch.Options{Subresource: "a/b"}, func(*corev1.Node) {}),
	)

	It("refuses nil objects and nil clients", func(ctx SpecContext) {
		_, err := patch.Merge(ctx, always(c), nil, nil, func(*corev1.Node) {})
		Expect(err).To(MatchError(ContainSubstring("must not be nil")))
		_, err = patch.Merge[patch.Client[*corev1.Node]](ctx, nil, cached, nil, func(*corev1.Node) {})
		Expect(err).To(MatchError(ContainSubstring("must not be nil")))
	})

	It("says at V(4) what it changes, and nothing below", func(ctx SpecContext) {
		for level, want := range map[int]int{3: 0, 4: 1} {
			var lines []string
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: level})
			_, err := patch.Merge(logr.NewContext(ctx, log), always(c), cached, nil, func(n *corev1.Node) { n.Labels["zone"] = "b" })
			Expect(err).NotTo(HaveOccurred())
			Expect(lines).To(HaveLen(want))
			for _, line := range lines {
				Expect(line).To(ContainSubstring("metadata.labels.zone"))
			}
		}
	})

	It("leaves alone what an edit has put into its copy", func(ctx SpecContext) {
		wanted := node()
		for range 3 {
			_, err := patch.Merge(ctx, always(c), cached, nil, func(n *corev1.Node) { n.Labels, n.Spec = wanted.Labels, wanted.Spec })
			Expect(err).NotTo(HaveOccurred())
			_, err = patch.Merge(ctx, always(c), cached, nil, func(n *corev1.Node) {
				n.Labels["zone"] = "b"
				n.Spec.Taints[0].Key = "edited"
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(wanted).To(Equal(node()))
		}
	})

	It("infers its types from generated and fake clients", func(ctx SpecContext) {
		client := fake.NewClientset(cached)
		got, err := patch.Merge(ctx, patch.Cluster(client.CoreV1().Nodes()), cached, nil, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "new", Effect: corev1.TaintEffectNoExecute})
			delete(n.Labels, "zone")
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Spec.Taints).To(HaveLen(2))
		Expect(got.Labels).To(BeEmpty())
	})
})

var _ = Describe("Status", func() {
	It("writes the status subresource", func(ctx SpecContext) {
		c := &recording[*corev1.Node]{answer: node()}
		_, err := patch.Status(ctx, always(c), node(), nil, func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
		Expect(err).NotTo(HaveOccurred())
		Expect(c.requests[0].sub).To(Equal([]string{"status"}))
		Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1"},"status":{"phase":"Running"}}`))
	})
})

// Other clients add to these lists, and a JSON merge patch replaces them.
func TestFinalizersAndOwnersOfCustomKindsAreLocked(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "1"}
	for want, edit := range map[string]func(*widget){
		`{"metadata":{"resourceVersion":"3","uid":"u2","finalizers":["old","new"]}}`: func(w *widget) {
			w.Finalizers = append(w.Finalizers, "new")
		},
		`{"metadata":{"resourceVersion":"3","uid":"u2","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"1"}]}}`: func(w *widget) {
			w.OwnerReferences = []metav1.OwnerReference{owner}
		},
		`{"metadata":{"uid":"u2","labels":{"a":"b"}}}`: func(w *widget) { w.Labels = map[string]string{"a": "b"} },
	} {
		g := NewWithT(t)
		c := &recording[*widget]{answer: gadget()}
		_, err := patch.Merge(t.Context(), always(c), gadget(), nil, edit)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.requests[0].body).To(MatchJSON(want))
	}
}

func TestMetadataOfBuiltInKindsIsMergedByElement(t *testing.T) {
	finalizers := func(list ...string) func(*corev1.Node) { return func(n *corev1.Node) { n.Finalizers = list } }
	for want, edit := range map[string]func(*corev1.Node){
		`{"metadata":{"uid":"u1","$deleteFromPrimitiveList/finalizers":["theirs","mine"]}}`:                    finalizers(),
		`{"metadata":{"uid":"u1","$deleteFromPrimitiveList/finalizers":["mine"]}}`:                             finalizers("theirs"),
		`{"metadata":{"uid":"u1","finalizers":["new"],"$setElementOrder/finalizers":["theirs","mine","new"]}}`: finalizers("theirs", "mine", "new"),
		`{"metadata":{"uid":"u1","ownerReferences":[{"uid":"1","name":"b"}]}}`:                                 func(n *corev1.Node) { n.OwnerReferences[0].Name = "b" },
		`{"metadata":{"uid":"u1","resourceVersion":"7","annotations":{"$patch":"replace"}}}`:                   func(n *corev1.Node) { n.Annotations["$patch"] = "replace" },
	} {
		g := NewWithT(t)
		cached := node()
		cached.Finalizers = []string{"theirs", "mine"}
		cached.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "1"}}
		c := &recording[*corev1.Node]{answer: node()}
		_, err := patch.Merge(t.Context(), always(c), cached, nil, edit)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.requests[0].body).To(MatchJSON(want))
	}
}
