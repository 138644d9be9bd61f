package patch_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/patch"
)

// An edit that names no owner would overwrite what another controller has made.
func TestEnsureDoesNotWriteWhatAnotherOwnerControls(t *testing.T) {
	theirs := configMap("u3")
	theirs.OwnerReferences = controlledBy("theirs")
	for name, base := range map[string]*corev1.ConfigMap{"cached": theirs, "not in the cache": configMap("")} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &store{has: theirs}
			s.answer = theirs
			_, err := patch.Ensure(t.Context(), always(s), base, nil, setB)
			g.Expect(err).To(MatchError(patch.ErrForeign))
			foreign, _ := errors.AsType[*patch.ForeignError](err)
			g.Expect(foreign).To(HaveField("Kind", "ConfigMap"))
			g.Expect(foreign.Key.String()).To(Equal("ns/c"))
			g.Expect(foreign.Owner).To(ContainSubstring(`"of-theirs"`))
			g.Expect(patch.IsStale(err)).To(BeFalse())
			g.Expect(s.requests).To(BeEmpty())

			_, err = patch.Ensure(t.Context(), always(s), base, &patch.Options{Adopt: true}, setB)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.requests).To(HaveLen(1), "it is asked for")
		})
	}
}

// An edit may leave alone the reference that it has set when it created the
// object.
func TestEnsureWritesWhatItsEditWouldControl(t *testing.T) {
	g := NewWithT(t)
	mine := configMap("u3")
	mine.OwnerReferences = controlledBy("mine")
	s := &store{has: mine}
	s.answer = mine
	_, err := patch.Ensure(t.Context(), always(s), mine, nil, func(m *corev1.ConfigMap) {
		if len(m.OwnerReferences) == 0 {
			m.OwnerReferences = controlledBy("mine")
		}
		setB(m)
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.requests).To(HaveLen(1))
}

func TestEnsureCallsAnEditTwiceOnlyForAControlledObjectThatChanges(t *testing.T) {
	g := NewWithT(t)
	mine := configMap("u3")
	mine.OwnerReferences = controlledBy("mine")
	s := &store{has: mine}
	s.answer = mine
	calls := 0
	_, err := patch.Ensure(t.Context(), always(s), mine, nil, func(m *corev1.ConfigMap) {
		calls++
		m.OwnerReferences = controlledBy("mine")
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(calls).To(Equal(1))
	g.Expect(s.requests).To(BeEmpty())
}

// A program may adopt what it recognises.
func TestAdoptLetsAnEditReplaceTheController(t *testing.T) {
	g := NewWithT(t)
	theirs := configMap("u3")
	theirs.OwnerReferences = controlledBy("theirs")
	s := &store{has: theirs}
	s.answer = theirs
	_, err := patch.Ensure(t.Context(), always(s), theirs, &patch.Options{Adopt: true},
		func(m *corev1.ConfigMap) { m.OwnerReferences = controlledBy("mine") })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.requests).To(HaveLen(1))
}

// answeringCreate is a client whose creations are answered with another object.
type answeringCreate struct {
	typedcorev1.PodInterface
	answer *corev1.Pod
}

func (a answeringCreate) Create(context.Context, *corev1.Pod, metav1.CreateOptions) (*corev1.Pod, error) {
	return a.answer, nil
}

func TestTheAnswerToACreationIsNotTheObjectOfAnotherOwner(t *testing.T) {
	foreign := blankPod("d")
	foreign.UID, foreign.ResourceVersion, foreign.OwnerReferences = "77", "3", controlledBy("other")
	pods := func(string) answeringCreate { return answeringCreate{fake.NewClientset().CoreV1().Pods("d"), foreign} }
	for name, edit := range map[string]func(*corev1.Pod){
		"without a controller": relabel, "with another controller": func(p *corev1.Pod) { p.OwnerReferences = controlledBy("ours") },
	} {
		g := NewWithT(t)
		_, err := patch.Ensure(t.Context(), pods, blankPod("d"), nil, edit)
		g.Expect(err).To(MatchError(patch.ErrForeign), name)
		g.Expect(err).To(MatchError(ContainSubstring("controls it")), name)
	}
	_, err := patch.Ensure(t.Context(), pods, blankPod("d"), nil, func(p *corev1.Pod) { p.OwnerReferences = controlledBy("other") })
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// A proxy answers a creation with an object of that name without an owner. The
// server has not created the caller's.
func TestTheAnswerToACreationHasTheController(t *testing.T) {
	g, ownerless := NewWithT(t), blankPod("d")
	ownerless.UID, ownerless.ResourceVersion = "77", "3"
	pods := func(string) answeringCreate {
		return answeringCreate{fake.NewClientset().CoreV1().Pods("d"), ownerless}
	}
	_, err := patch.Ensure(t.Context(), pods, blankPod("d"), nil, func(p *corev1.Pod) { p.OwnerReferences = controlledBy("ours") })
	g.Expect(err).To(MatchError(patch.ErrForeign))
	g.Expect(err).To(MatchError(ContainSubstring("has no controller")))
	_, err = patch.Ensure(t.Context(), pods, blankPod("d"), nil, relabel)
	g.Expect(err).NotTo(HaveOccurred())
}
