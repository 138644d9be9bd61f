package patch_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/patch"
)

// observing is a custom kind whose status has the type S.
type observing[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            S `json:"status,omitzero"`
}

func (o *observing[S]) GetObjectKind() schema.ObjectKind { return &o.TypeMeta }

func (o *observing[S]) DeepCopyObject() runtime.Object {
	out := &observing[S]{}
	if data, err := json.Marshal(o); err != nil || json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

type observed[N any] struct {
	ObservedGeneration N                  `json:"observedGeneration,omitempty"`
	Phase              string             `json:"phase,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// observes returns the patch of a status that an edit leaves or changes.
func observes[S any](t *testing.T, edit func(*S)) string {
	t.Helper()
	c := &recording[*observing[S]]{answer: &observing[S]{ObjectMeta: gadget().ObjectMeta}}
	cached := &observing[S]{ObjectMeta: gadget().ObjectMeta}
	_, err := patch.Status(t.Context(), always(c), cached, nil, func(o *observing[S]) { edit(&o.Status) })
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if len(c.requests) == 0 {
		return ""
	}
	return c.requests[0].body
}

func TestTheGenerationIsObservedInAnyFormOfTheStatus(t *testing.T) {
	g := NewWithT(t)
	five := ContainSubstring(`"status":{"observedGeneration":5}`)
	g.Expect(observes(t, func(*observed[int64]) {})).To(five)
	g.Expect(observes(t, func(*observed[int32]) {})).To(five)
	g.Expect(observes(t, func(*observed[uint64]) {})).To(five)
	g.Expect(observes(t, func(*observed[*int64]) {})).To(five)
	g.Expect(observes(t, func(**observed[int64]) {})).To(five)
	g.Expect(observes(t, func(**observed[*int64]) {})).To(five)
	g.Expect(observes(t, func(*observed[string]) {})).To(BeEmpty())
	g.Expect(observes(t, func(**plainStatus) {})).To(BeEmpty())
	g.Expect(observes(t, func(s **observed[*int64]) {
		*s = &observed[*int64]{Phase: "Ready", Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}}
	})).To(And(ContainSubstring(`"phase":"Ready"`), ContainSubstring(`"status":"True","observedGeneration":5`)))
	g.Expect(observes(t, func(s **embeddedStatus) { *s = &embeddedStatus{Phase: "Ready"} })).
		To(And(ContainSubstring(`"phase":"Ready"`), Not(ContainSubstring("observed"))))
}

// routeStatus has conditions as the status of an HTTPRoute has them, in an entry
// for each of several controllers.
type routeStatus struct {
	observed[int64] `json:",inline"`

	Parents []parentStatus `json:"parents,omitempty"`
}

type parentStatus struct {
	ControllerName string             `json:"controllerName"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
}

// A condition in an entry may be about a different object, or belong to
// another controller. So its generation is not guessed.
func TestConditionsElsewhereInTheStatusStayAsTheEditSetsThem(t *testing.T) {
	g := NewWithT(t)
	accepted := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue}
	known := accepted
	known.ObservedGeneration = 4
	sent := observes(t, func(s *routeStatus) {
		s.Conditions = []metav1.Condition{accepted}
		s.Parents = []parentStatus{
			{ControllerName: "ours", Conditions: []metav1.Condition{known}},
			{ControllerName: "theirs", Conditions: []metav1.Condition{accepted}},
		}
	})
	before, parents, found := strings.Cut(sent, `"parents":`)
	g.Expect(found).To(BeTrue(), sent)
	g.Expect(before).To(ContainSubstring(`"status":"True","observedGeneration":5`))
	g.Expect(parents).To(ContainSubstring(`"status":"True","observedGeneration":4`))
	g.Expect(strings.Count(parents, "observedGeneration")).To(Equal(1), sent)
}

type plainStatus struct {
	Phase string `json:"phase,omitempty"`
}

// embeddedStatus has an observed generation behind a nil pointer.
type embeddedStatus struct {
	*observed[int64] `json:",inline"`

	Phase string `json:"phase,omitempty"`
}
