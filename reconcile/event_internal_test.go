package reconcile

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/queue"
)

func TestCausesAreToldWithObjectChangeVersionsAndHowManyWereMerged(t *testing.T) {
	g := NewWithT(t)
	g.Expect(describe(nil)).To(BeEmpty())
	g.Expect(describe([]queue.Cause{
		{Trigger: "nodes", Name: "node-1", Type: "updated", OldVersion: "41", NewVersion: "57"},
		{Trigger: "pods", Namespace: "d", Name: "a", Type: "deleted", OldVersion: "12", Merged: 3},
		{Trigger: "resync", Namespace: "d", Name: "b", Type: "resync", Merged: 1},
	})).To(Equal("nodes: updated /node-1 41→57; pods: deleted d/a 12→ (3 merged); resync: resync d/b (1 merged)"))
}

// An informer may be one of an interface, for example.
func TestOnlyFieldsOfStructsAreCompared(t *testing.T) {
	g := NewWithT(t)
	g.Expect(comparedFields(reflect.TypeFor[metav1.Object]())).To(BeNil())
	g.Expect(comparedFields(reflect.TypeFor[*map[string]any]())).To(BeNil())
	g.Expect(comparedFields(reflect.TypeFor[*corev1.Secret]())).To(BeNil(), "it has no status")
	g.Expect(comparedFields(reflect.TypeFor[*corev1.Node]())).To(Equal([]int{2}), "its spec")
	g.Expect(comparedFields(reflect.TypeFor[*corev1.Namespace]())).NotTo(BeEmpty())
}
