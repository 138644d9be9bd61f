package patch_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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

// always returns the client c for every namespace.
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

// written records the reported writes of a reconcile.
type written struct{ wrote, deleted []string }

func (w *written) Wrote(o metav1.Object, _ ownwrites.Content) {
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

func TestMergeSendsOnlyWhatTheEditChangedAndLeavesTheCachedObjectAlone(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	got, err := patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) {
		n.Annotations["reboot"] = "now"
		n.Spec.Unschedulable = true
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.ResourceVersion).To(Equal("8"))
	g.Expect(cached).To(Equal(node()))
	g.Expect(c.requests).To(HaveLen(1))
	g.Expect(c.requests[0].pt).To(Equal(types.StrategicMergePatchType))
	g.Expect(c.requests[0].manager).To(Equal(patch.DefaultFieldManager))
	g.Expect(c.requests[0].body).To(MatchJSON(
		`{"metadata":{"uid":"u1","annotations":{"reboot":"now"}},"spec":{"unschedulable":true}}`))
}

func TestMergeSendsNothingWhenNothingChanged(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	got, err := patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) { n.Labels["zone"] = "a" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(BeIdenticalTo(cached))
	g.Expect(c.requests).To(BeEmpty())
}

func TestMergePutsTheLockedFieldsIntoThePatch(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	_, err := patch.Merge(t.Context(), always(c), cached, &patch.Options{Lock: true}, relabelNode)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = patch.Merge(t.Context(), always(c), cached, &patch.Options{Lock: true}, func(n *corev1.Node) { n.Spec.PodCIDR = "10.0.0.0/8" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"7","uid":"u1","labels":{"b":"c"}}}`))
	g.Expect(c.requests[1].body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"7","uid":"u1"},"spec":{"podCIDR":"10.0.0.0/8"}}`))
}

func TestMergeQuotesAResourceVersionAsJSONDoes(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	cached.ResourceVersion = "a\x01\"é"
	lock := &patch.Options{Lock: true}
	_, err := patch.Merge(t.Context(), always(c), cached, lock, relabelNode)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"resourceVersion":"a\u0001\"é","uid":"u1","labels":{"b":"c"}}}`))
}

func TestMergeDoesNotReportADryRunAsWritten(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	var w written
	_, err := patch.Merge(ownwrites.NewContext(t.Context(), &w), always(c), cached, &patch.Options{DryRun: true},
		relabelNode)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].dryRun).To(Equal([]string{metav1.DryRunAll}))
	g.Expect(w.wrote).To(BeEmpty())
}

func TestMergeReturnsAConflict(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	c.err = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("changed"))
	_, err := patch.Merge(t.Context(), always(c), cached, nil, relabelNode)
	g.Expect(err).To(Satisfy(patch.IsStale))
	g.Expect(err).To(MatchError(ContainSubstring(`patching Node "/n1"`)))
}

func TestMergeMakesAConflictOfARefusedUID(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	c.err = &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Field: "metadata.uid", Type: metav1.CauseTypeFieldValueInvalid},
		}},
	}}
	_, err := patch.Merge(t.Context(), always(c), cached, nil,
		relabelNode)
	g.Expect(err).To(Satisfy(apierrors.IsConflict))
}

func TestMergeRefusesBadInputBeforeAnyRequest(t *testing.T) {
	for name, row := range map[string]struct {
		want string
		o    *patch.Options
		edit func(*corev1.Node)
	}{
		"no edit":                 {"must not be nil", nil, nil},
		"another name":            {`metadata.name from "n1" to "n2"`, nil, func(n *corev1.Node) { n.Name = "n2" }},
		"another namespace":       {`metadata.namespace`, nil, func(n *corev1.Node) { n.Namespace = "x" }},
		"another UID":             {`metadata.uid from "u1"`, nil, func(n *corev1.Node) { n.UID = "x" }},
		"another kind":            {`must not change kind from "" to "Pod"`, nil, func(n *corev1.Node) { n.Kind = "Pod" }},
		"another apiVersion":      {`must not change apiVersion from "" to "v2"`, nil, func(n *corev1.Node) { n.APIVersion = "v2" }},
		"another resourceVersion": {`metadata.resourceVersion`, nil, func(n *corev1.Node) { n.ResourceVersion = "x" }},
		"nothing to lock on":      {"no metadata.resourceVersion to lock on", &patch.Options{Lock: true}, relabelNode},
		"a patch that is too large": {"a server reads at most", nil, func(n *corev1.Node) {
			n.Annotations["a"] = strings.Repeat("a", patch.MaxBytes)
		}},
		"a long field manager": {"must have at most 128 bytes", &patch.Options{FieldManager: strings.Repeat("m", 129)}, relabelNode},
		"a line break":         {"must be printable", &patch.Options{FieldManager: "a\nb"}, relabelNode},
		"invalid UTF-8":        {"must be printable", &patch.Options{FieldManager: "a\xff"}, relabelNode},
		"a path":               {`Options.Subresource is "a/b": must be one path segment`, &patch.Options{Subresource: "a/b"}, relabelNode},
		"a control character":  {"must be one path segment", &patch.Options{Subresource: "a\x00"}, relabelNode},
	} {
		t.Run(name, func(t *testing.T) {
			g, c, cached := NewWithT(t), &recording[*corev1.Node]{}, node()
			cached.ResourceVersion = ""
			_, err := patch.Merge(t.Context(), always(c), cached, row.o, row.edit)
			g.Expect(err).To(MatchError(ContainSubstring(row.want)))
			g.Expect(c.requests).To(BeEmpty())
		})
	}
}

// The largest that is allowed passes.
func TestMergeAllowsWhatTheServerAllows(t *testing.T) {
	g, c := NewWithT(t), &recording[*corev1.Node]{answer: node()}
	const without = len(`{"metadata":{"uid":"u1","annotations":{"a":""}}}`)
	_, err := patch.Merge(t.Context(), always(c), node(), &patch.Options{FieldManager: strings.Repeat("m", 128)},
		func(n *corev1.Node) { n.Annotations["a"] = strings.Repeat("a", patch.MaxBytes-without) })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].body).To(HaveLen(patch.MaxBytes))
}

func relabelNode(n *corev1.Node) { n.Labels["b"] = "c" }

func TestMergeRefusesNilObjectsAndNilClients(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	_, err := patch.Merge(t.Context(), always(c), nil, nil, func(*corev1.Node) {})
	g.Expect(err).To(MatchError(ContainSubstring("must not be nil")))
	_, err = patch.Merge[patch.Client[*corev1.Node]](t.Context(), nil, cached, nil, func(*corev1.Node) {})
	g.Expect(err).To(MatchError(ContainSubstring("must not be nil")))
	_, err = patch.Status(t.Context(), always(c), cached, nil, nil)
	g.Expect(err).To(MatchError(ContainSubstring("must not be nil")))
}

func TestMergeSaysAtVFourWhatItChangesAndNothingBelow(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	for level, want := range map[int]int{3: 0, 4: 1} {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: level})
		_, err := patch.Merge(logr.NewContext(t.Context(), log), always(c), cached, nil, func(n *corev1.Node) { n.Labels["zone"] = "b" })
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lines).To(HaveLen(want))
		for _, line := range lines {
			g.Expect(line).To(ContainSubstring("metadata.labels.zone"))
		}
	}
}

func TestMergeDoesNotModifyWhatAnEditHasPutIntoItsCopy(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	c := &recording[*corev1.Node]{answer: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "8"}}}
	wanted := node()
	for range 3 {
		_, err := patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) { n.Labels, n.Spec = wanted.Labels, wanted.Spec })
		g.Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) {
			n.Labels["zone"] = "b"
			n.Spec.Taints[0].Key = "edited"
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(wanted).To(Equal(node()))
	}
}

func TestMergeInfersItsTypesFromGeneratedAndFakeClients(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	client := fake.NewClientset(cached)
	got, err := patch.Merge(t.Context(), patch.ClusterScoped(client.CoreV1().Nodes()), cached, nil, func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "new", Effect: corev1.TaintEffectNoExecute})
		delete(n.Labels, "zone")
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Spec.Taints).To(HaveLen(2))
	g.Expect(got.Labels).To(BeEmpty())
}

func TestStatusWritesTheStatusSubresource(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*corev1.Node]{answer: node()}
	_, err := patch.Status(t.Context(), always(c), node(), nil, func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].sub).To(Equal([]string{"status"}))
	g.Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1"},"status":{"phase":"Running"}}`))
}

// Other clients add to these lists.
func TestFinalizersAndOwnersOfCustomKindsAreLocked(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "1"}
	for want, edit := range map[string]func(*widget){
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"add","path":"/metadata/uid","value":"u2"},
		{"op":"test","path":"/metadata/finalizers","value":["old"]},{"op":"add","path":"/metadata/finalizers","value":["old","new"]}]`: func(w *widget) {
			w.Finalizers = append(w.Finalizers, "new")
		},
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"add","path":"/metadata/uid","value":"u2"},
		{"op":"test","path":"/metadata/ownerReferences","value":null},
		{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"1"}]}]`: func(w *widget) {
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

// The server would drop such an edit, and each reconcile would send it again.
func TestAnEditOfWhatOnlyTheServerSetsIsRefused(t *testing.T) {
	for field, edit := range map[string]func(*corev1.Node){
		"metadata.generation":        func(n *corev1.Node) { n.Generation++ },
		"metadata.creationTimestamp": func(n *corev1.Node) { n.CreationTimestamp = metav1.Now() },
		"metadata.deletionTimestamp": func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) },
	} {
		t.Run(field, func(t *testing.T) {
			g := NewWithT(t)
			c := &recording[*corev1.Node]{answer: node()}
			_, err := patch.Merge(t.Context(), always(c), node(), nil, edit)
			g.Expect(err).To(MatchError(ContainSubstring("the edit changes " + field + ", which only the server sets")))
			g.Expect(c.requests).To(BeEmpty())
		})
	}
}

func TestADeletionOfASubresourceIsRefused(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(node())
	nodes := patch.ClusterScoped(client.CoreV1().Nodes())
	err := patch.Delete(t.Context(), nodes, node(), &patch.Options{Subresource: "status"})
	g.Expect(err).To(MatchError(ContainSubstring("patch.Options.Subresource")))
	g.Expect(client.Actions()).To(BeEmpty())
}
