package reconciletest_test

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// watchingAll has an informer of ConfigMaps for each selector of labels.
func watchingAll(selectors ...string) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		var all []informers.SharedInformerFactory
		for _, selector := range selectors {
			factory := informers.NewSharedInformerFactoryWithOptions(env.Client(), 0,
				informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
			factory.Core().V1().ConfigMaps().Informer()
			factory.StartWithContext(env.Context())
			all = append(all, factory)
		}
		<-env.Context().Done()
		for _, factory := range all {
			factory.Shutdown()
		}
		return nil
	}
}

func TestATraceSaysWhichInformerADeliveryIsFor(t *testing.T) {
	for name, row := range map[string]struct {
		selectors []string
		want      []any
	}{
		"one": {[]string{"parent"}, []any{"deliver   ADDED configmaps d/b"}},
		"two": {[]string{"parent", ""}, []any{
			"deliver   ADDED configmaps d/b   (labels parent)", "deliver   ADDED configmaps d/b   (all)",
		}},
		"two that are alike": {[]string{"", ""}, []any{
			"deliver   ADDED configmaps d/b   (all, 1 of 2)", "deliver   ADDED configmaps d/b   (all, 2 of 2)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &reconciletest.Case{
				Objects: []runtime.Object{breeding.Parent("a")}, Run: watchingAll(row.selectors...),
				Workload: []reconciletest.Step{reconciletest.Create(breeding.Parent("b"))},
			}
			o := &reconciletest.Options{KnownFindings: []string{"the program writes nothing"}}
			lines, _ := reconciletest.TraceOf(t, c, o, "j1")
			gomega.NewWithT(t).Expect(lines).To(gomega.ContainElements(row.want...))
		})
	}
}
