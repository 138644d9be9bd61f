package reconciletest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// rememberingWidgets gives every Widget in an informer of client-go a Secret
// once, and looks for new ones now and then. The buggy one remembers the names
// of the Widgets that it has seen at the last look.
func rememberingWidgets(byUID bool) *reconciletest.Case {
	c := ofWidgets(func(env *reconciletest.Env) error {
		ctx, done := env.Context(), map[string]bool{}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(env.Config()), 0)
		cached := factory.ForResource(widgets).Informer().GetStore()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		for ctx.Err() == nil {
			before := done
			done = map[string]bool{} // it forgets what is no longer there
			for _, o := range cached.List() {
				w := o.(*unstructured.Unstructured)
				id := w.GetName()
				if byUID {
					id = string(w.GetUID())
				}
				done[id] = before[id] || ownKeyOf(ctx, env.Client(), w) == nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
		}
		return nil
	})
	c.Unwatched = []string{"secrets"}
	return c
}

// ownKeyOf gives a Widget a Secret, unless there is one of another object.
func ownKeyOf(ctx context.Context, client kubernetes.Interface, w *unstructured.Unstructured) error {
	s, err := client.CoreV1().Secrets(w.GetNamespace()).Get(ctx, w.GetName()+"-key", metav1.GetOptions{})
	switch {
	case err == nil && !metav1.IsControlledBy(s, w):
		return errors.New("the Secret belongs to another object")
	case apierrors.IsNotFound(err):
		return keyOf(ctx, client, w)
	}
	return err
}

func TestAKindComesBackWithOtherObjects(t *testing.T) {
	for name, byUID := range map[string]bool{"it remembers names": false, "it remembers UIDs": true} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.FailureOf(t, rememberingWidgets(byUID), nil, "^R")
			if byUID {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.Equal(3 + 1))
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("tail"), r.Failure)
			g.Expect(r.Reason).To(gomega.Equal("reborn"))
			g.Expect(r.Failure).To(gomega.HavePrefix("custom resource 1 is deleted with its objects, and comes back with " +
				"objects of the same names: the CustomResourceDefinition of widgets.example.com was deleted and created again " +
				"with its objects, and an hour later nothing had followed; a restart then wrote: create secrets d/w-key"))
			others := reconciletest.FailureOf(t, rememberingWidgets(false), nil, "^[rzU]")
			g.Expect(others.Failure).To(gomega.BeEmpty(), "others find it, too")
		})
	}
}
