package patch_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// Only the 422 that real servers send for another UID means that the cache was
// stale.
func TestAnInvalidFieldIsNoStaleCache(t *testing.T) {
	uid := field.Invalid(field.NewPath("metadata", "uid"), "u3", "field is immutable")
	label := field.Invalid(field.NewPath("metadata", "labels"), "x y", "name part must consist of alphanumeric characters")
	owner := field.Invalid(field.NewPath("metadata", "ownerReferences", "uid"), "", "must not be empty")
	for name, row := range map[string]struct {
		causes field.ErrorList
		stale  bool
	}{
		"another UID, as servers say it":            {field.ErrorList{uid, uid}, true},
		"an invalid label":                          {field.ErrorList{label}, false},
		"an owner without UID":                      {field.ErrorList{owner, owner}, false},
		"another UID, on which the edit is invalid": {field.ErrorList{label, uid}, true},
		"nothing": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			refusal := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "c", row.causes)
			c := &recording[*corev1.ConfigMap]{err: refusal}
			_, err := patch.Merge(t.Context(), always(c), configMap("u3"), nil, setB)
			g.Expect(patch.IsStale(err)).To(Equal(row.stale))
			g.Expect(apierrors.IsConflict(err)).To(Equal(row.stale))
			g.Expect(apierrors.IsInvalid(err)).To(Equal(!row.stale))
		})
	}
}

func TestARefusalWithoutDetailsIsReturnedAsItIs(t *testing.T) {
	g := NewWithT(t)
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "no"}}
	_, err := patch.Merge(t.Context(), always(&recording[*corev1.ConfigMap]{err: refusal}), configMap("u3"), nil, setB)
	g.Expect(err).To(MatchError(refusal))
	g.Expect(patch.IsStale(err)).To(BeFalse())
}

func TestAMissingSubresourceIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		has     *corev1.ConfigMap
		missing bool
	}{
		"the object is there":      {configMap("u3"), true},
		"the object is deleted":    {nil, false},
		"the object was recreated": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u4"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &store{has: row.has}
			s.err = apierrors.NewNotFound(configMaps, "c")
			_, err := patch.Merge(t.Context(), always(s), configMap("u3"), &patch.Options{Subresource: "scale"}, setB)
			g.Expect(apierrors.IsNotFound(err)).To(Equal(!row.missing))
			if row.missing {
				g.Expect(err).To(MatchError(ContainSubstring(`the kind has no subresource "scale"`)))
			}
		})
	}
}

func controlledBy(uids ...string) []metav1.OwnerReference {
	yes := true
	var out []metav1.OwnerReference
	for _, uid := range uids {
		out = append(out, metav1.OwnerReference{
			APIVersion: "apps/v1", Kind: "Deployment", Name: "of-" + uid, UID: types.UID("uid-" + uid), Controller: &yes,
		})
	}
	return out
}

func TestEnsureDoesNotAdoptWhatAnotherOwnerControls(t *testing.T) {
	theirs := configMap("u3")
	theirs.OwnerReferences = controlledBy("theirs")
	for name, run := range map[string]func(edit func(*corev1.ConfigMap)) (*store, error){
		"cached": func(edit func(*corev1.ConfigMap)) (*store, error) {
			s := &store{}
			s.answer = theirs
			_, err := patch.Ensure(t.Context(), always(s), theirs, nil, edit)
			return s, err
		},
		"not in the cache": func(edit func(*corev1.ConfigMap)) (*store, error) {
			s := &store{has: theirs}
			s.answer = theirs
			_, err := patch.Ensure(t.Context(), always(s), configMap(""), nil, edit)
			return s, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, refs := range [][]metav1.OwnerReference{controlledBy("mine"), controlledBy("theirs", "mine")} {
				s, err := run(func(m *corev1.ConfigMap) { m.OwnerReferences = refs })
				g.Expect(err).To(MatchError(And(ContainSubstring(`"of-theirs"`), ContainSubstring(`"of-mine"`))))
				g.Expect(patch.IsStale(err)).To(BeFalse())
				g.Expect(s.requests).To(BeEmpty())
			}
			s, err := run(func(m *corev1.ConfigMap) { m.OwnerReferences = controlledBy("theirs"); setB(m) })
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.requests).To(HaveLen(1))
		})
	}
	g := NewWithT(t)
	s := &store{}
	s.answer = configMap("u3")
	_, err := patch.Ensure(t.Context(), always(s), configMap("u3"), nil,
		func(m *corev1.ConfigMap) { m.OwnerReferences = controlledBy("mine") })
	g.Expect(err).NotTo(HaveOccurred(), "an object without a controller may be adopted")
}

// versioned answers an apply with the resourceVersions that it is given, and
// fields owned by the manager.
type versioned struct {
	versions []string
	asked    int
}

func (v *versioned) Apply(_ context.Context, _ *nodeConfig, _ metav1.ApplyOptions) (*corev1.Node, error) {
	if v.asked == len(v.versions) {
		return nil, errors.New("one request too many")
	}
	v.asked++
	return owning(v.versions[v.asked-1], `{"f:metadata":{}}`), nil
}

func owning(version, fields string) *corev1.Node {
	n := applied(0, "doorman", fields)
	n.ResourceVersion = version
	return n
}

// Such versions cannot be compared: the owner of the fields decides, whether
// the cache is behind or not.
func TestAnApplierSkipsByOwnershipWhereVersionsAreNoNumbers(t *testing.T) {
	g := NewWithT(t)
	server := &versioned{versions: []string{"a", "c"}}
	a := patch.NewApplier(always(server))
	asks := func(cached *corev1.Node) int {
		t.Helper()
		before := server.asked
		_, err := a.Apply(t.Context(), cached, &patch.Options{FieldManager: "doorman"}, corev1apply.Node("n1"))
		g.Expect(err).NotTo(HaveOccurred())
		return server.asked - before
	}
	g.Expect(asks(nil)).To(Equal(1))
	g.Expect(asks(owning("a", `{"f:metadata":{}}`))).To(BeZero(), "its own answer")
	g.Expect(asks(owning("b", `{"f:metadata":{}}`))).To(BeZero(), "others have changed something else")
	g.Expect(asks(owning("b", `{}`))).To(Equal(1), "a field was taken")
	g.Expect(asks(owning("c", `{"f:metadata":{}}`))).To(BeZero(), "and is back")
}

// The API server changes the ResourceQuota of the namespace together with a new
// Pod, and another creation may have changed it at the same moment.
func TestAConflictAboutTheQuotaIsTriedAgainLikeAStaleWrite(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Incomplete: true})
	g.Expect(err).NotTo(HaveOccurred())
	calls := 0
	sim.Deny(func(apisim.Call) error {
		if calls++; calls > 1 {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("resourcequotas"), "quota", errors.New("the object has been modified"))
	})
	client := kubernetes.NewForConfigOrDie(sim.Config("controller"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}}
	_, err = patch.Ensure(t.Context(), client.CoreV1().Pods, pod, nil, relabel)
	g.Expect(err).To(MatchError(And(ContainSubstring(`Pod "d/web"`), ContainSubstring(`resourcequotas "quota"`))))
	g.Expect(patch.IsStale(err)).To(BeTrue())
	g.Expect(calls).To(Equal(1), "it is not taken for a Pod that exists")

	got, err := patch.Ensure(t.Context(), client.CoreV1().Pods, pod, nil, relabel)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Labels).To(HaveKeyWithValue("a", "b"))
}
