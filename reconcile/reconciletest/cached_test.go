package reconciletest_test

import (
	"maps"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// handles has an informer of client-go that removes the annotations of its
// objects, and calls handle for each object that is added.
func handles(handle func(p *corev1.ConfigMap)) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		strip := func(obj any) (any, error) {
			if p, ok := obj.(*corev1.ConfigMap); ok {
				p.Annotations = nil
			}
			return env.Transform(obj)
		}
		factory := informers.NewSharedInformerFactoryWithOptions(env.Client(), 0, informers.WithTransform(strip))
		_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if p, ok := obj.(*corev1.ConfigMap); ok {
					handle(p)
				}
			},
		})
		if err != nil {
			return err
		}
		factory.StartWithContext(env.Context())
		<-env.Context().Done()
		factory.Shutdown()
		return nil
	}
}

func TestATransformFindsObjectsThatAreModifiedInTheCache(t *testing.T) {
	for name, row := range map[string]struct {
		handle func(p *corev1.ConfigMap)
		want   string
	}{
		"a field":           {func(p *corev1.ConfigMap) { p.Data = map[string]string{"size": "1"} }, "mutation"},
		"an entry of a map": {func(p *corev1.ConfigMap) { p.Labels["size"] = "1" }, "mutation"},
		"a copy": {func(p *corev1.ConfigMap) {
			labels := maps.Clone(p.Labels)
			labels["size"] = "1"
			p.DeepCopy().Labels = labels
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(nil)
			c.Run, c.Goal = handles(row.handle), nil
			c.Objects[0].(*corev1.ConfigMap).Annotations = map[string]string{"long": "text"}
			o := &reconciletest.Options{KnownFindings: []string{"the program writes nothing"}}
			r := reconciletest.FailureOf(t, c, o, `^t1\.0`)
			g.Expect(r.Oracle).To(gomega.Equal(row.want), r.Failure)
			if row.want != "" {
				g.Expect(r.Failure).To(gomega.ContainSubstring("the cached *v1.ConfigMap d/a was modified in place"))
			}
		})
	}
}
