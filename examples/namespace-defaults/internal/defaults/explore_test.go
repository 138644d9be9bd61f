package defaults_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

// lifeOfTeams is a world in which namespaces come, get an owner, and leave the
// policy.
func lifeOfTeams(t *testing.T) *reconciletest.Case {
	t.Helper()
	team := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	policy, err := defaults.ReadPolicy("../../deploy/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy.Exempt = append(policy.Exempt, metav1.NamespaceDefault)
	return &reconciletest.Case{
		Roles:    []string{"../../deploy/rbac.yaml"},
		Unneeded: []string{"patch resourcequotas", "patch limitranges"}, // where the policy changes, or another client edits
		Run: func(env *reconciletest.Env) error {
			c, err := defaults.New(stage.Client(env.Config()), policy, nil)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(team("one")),
			reconciletest.Create(team("two")),
			reconciletest.Patch("namespaces", "two", `{"metadata":{"annotations":{"`+defaults.OwnerKey+`":"alice"}}}`),
			reconciletest.Patch("namespaces", "one", `{"metadata":{"labels":{"`+defaults.ExemptKey+`":"true"}}}`),
		},
		Goal: func(w *reconciletest.World) error {
			quotas, err := reconciletest.List[corev1.ResourceQuota](w, "resourcequotas")
			if err != nil {
				return err
			}
			if len(quotas) != 1 || quotas[0].Namespace != "two" {
				return fmt.Errorf("there are %d quotas, want one, in two", len(quotas))
			}
			limits, err := reconciletest.List[corev1.LimitRange](w, "limitranges")
			if err != nil {
				return err
			}
			if len(limits) != 1 || limits[0].Namespace != "two" {
				return fmt.Errorf("there are %d limit ranges, want one, in two", len(limits))
			}
			namespaces, err := reconciletest.List[corev1.Namespace](w, "namespaces")
			for _, n := range namespaces {
				if owner := n.Annotations[defaults.OwnerKey]; n.Name == "two" && owner != "alice" {
					return fmt.Errorf("the owner of two is %q", owner)
				}
			}
			return err
		},
	}
}

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, lifeOfTeams(t), &reconciletest.Options{Budget: exploration})
}
