package reconcile_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/reconcile"
)

type configMaps = typedcorev1.ConfigMapInterface

const mine = "example.com/mine"

// A guarded is a finalizer, what it cleaned, and what it sent and reported.
type guarded struct {
	*world
	reconcile.Finalizer[*configMap, configMaps]
	cleaned []string
	fault   error
	wrote   []string
}

func (g *guarded) Wrote(obj metav1.Object) { g.wrote = append(g.wrote, obj.GetName()) }
func (g *guarded) Deleted(metav1.Object)   {}
func (g *guarded) FieldManager() string    { return "manager" }

func withFinalizer(t *testing.T, object *configMap, f func(g *guarded, guard func(*configMap) (bool, *configMap, error))) {
	inWorld(t, func(w *world) {
		_, err := w.client.CoreV1().ConfigMaps("d").Create(t.Context(), object, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.client.ClearActions()
		g := &guarded{world: w}
		g.Finalizer = reconcile.Finalizer[*configMap, configMaps]{
			Name: mine, Client: w.client.CoreV1().ConfigMaps,
			Clean: func(_ context.Context, o *configMap) error {
				g.cleaned = append(g.cleaned, o.Name)
				return g.fault
			},
		}
		f(g, func(o *configMap) (bool, *configMap, error) { return g.Guard(ownwrites.NewContext(t.Context(), g), o) })
	})
}

func (g *guarded) patches() []string {
	var patches []string
	for _, a := range g.client.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			patches = append(patches, string(p.GetPatch()))
		}
	}
	g.client.ClearActions()
	return patches
}

func finalized(finalizers ...string) *configMap {
	object := configMapNamed("a")
	object.Finalizers, object.UID, object.ResourceVersion = finalizers, "u", "7"
	return object
}

func dying(finalizers ...string) *configMap {
	object := finalized(finalizers...)
	now := metav1.Now()
	object.DeletionTimestamp = &now
	return object
}

func TestAFinalizerIsAddedOnceAndBesideOthers(t *testing.T) {
	object := finalized("example.com/other")
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		live, newest, err := guard(object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(BeTrue())
		g.Expect(newest.Finalizers).To(Equal([]string{"example.com/other", mine}))
		g.Expect(object.Finalizers).To(Equal([]string{"example.com/other"}), "the cache is not written to")
		g.Expect(g.patches()).To(Equal([]string{
			`{"metadata":{"finalizers":["example.com/other","example.com/mine"],"resourceVersion":"7","uid":"u"}}`,
		}))
		g.Expect(g.wrote).To(Equal([]string{"a"}), "the next turn sees it")
		live, _, err = guard(newest)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(BeTrue())
		g.Expect(g.patches()).To(BeEmpty())
		g.Expect(g.cleaned).To(BeEmpty())
	})
}

func TestAFinalizerIsRemovedAfterCleaning(t *testing.T) {
	object := dying("example.com/other", mine)
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		live, newest, err := guard(object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(BeFalse())
		g.Expect(g.cleaned).To(Equal([]string{"a"}))
		g.Expect(newest.Finalizers).To(Equal([]string{"example.com/other"}))
		live, _, err = guard(newest)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(BeFalse())
		g.Expect(g.cleaned).To(HaveLen(1), "nothing is left to clean")
	})
}

func TestAFinalizerStaysUntilCleaningSucceeds(t *testing.T) {
	object := dying(mine)
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		g.fault = errors.New("volume is in use")
		live, _, err := guard(object)
		g.Expect(live).To(BeFalse())
		g.Expect(err).To(MatchError(`cleaning up for finalizer "example.com/mine": volume is in use`))
		g.Expect(g.patches()).To(BeEmpty())
	})
}

func TestAFinalizerIsNotAddedToADyingObject(t *testing.T) {
	object := dying("example.com/other")
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		live, _, err := guard(object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(live).To(BeFalse())
		g.Expect(g.patches()).To(BeEmpty())
		g.Expect(g.cleaned).To(BeEmpty())
	})
}

func TestAFinalizersConflictIsAConflict(t *testing.T) {
	object := finalized()
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		answer := error(apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("changed")))
		g.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, answer
		})
		live, newest, err := guard(object)
		g.Expect(apierrors.IsConflict(err)).To(BeTrue())
		g.Expect(live).To(BeFalse())
		g.Expect(newest).To(BeIdenticalTo(object))
		g.Expect(g.wrote).To(BeEmpty())
		answer = apierrors.NewNotFound(schema.GroupResource{}, "a")
		_, _, err = guard(dying(mine))
		g.Expect(err).NotTo(HaveOccurred(), "it is gone: nothing holds it")
	})
}

func TestAFaultyFinalizerSaysWhat(t *testing.T) {
	g := NewWithT(t)
	_, _, err := reconcile.Finalizer[*configMap, configMaps]{Name: "no domain!"}.Guard(t.Context(), configMapNamed("a"))
	g.Expect(err).To(MatchError(And(
		ContainSubstring(`Finalizer.Name is "no domain!"`),
		ContainSubstring("Finalizer.Client is nil"), ContainSubstring("Finalizer.Clean is nil"))))
}

// Without the check, Clean would be called for d/a, and the patch would go to
// another object.
func TestAFinalizersClientIsThatOfTheObject(t *testing.T) {
	object := dying(mine)
	withFinalizer(t, object, func(g *guarded, guard func(*configMap) (bool, *configMap, error)) {
		for want, client := range map[string]func(string) configMaps{
			`the client is of namespace "e" and would write "e/a" instead`: func(string) configMaps {
				return g.client.CoreV1().ConfigMaps("e")
			},
			`there is no client for namespace "d"`: func(string) configMaps { return nil },
		} {
			g.Client = client
			live, _, err := guard(object)
			g.Expect(live).To(BeFalse())
			g.Expect(err).To(MatchError(And(ContainSubstring("guarding d/a"), ContainSubstring(want))))
			g.Expect(g.cleaned).To(BeEmpty())
			g.Expect(g.patches()).To(BeEmpty())
		}
	})
}
