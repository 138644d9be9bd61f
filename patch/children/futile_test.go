package children_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

// inject has a webhook set the type of all Secrets that the controller creates.
// If secretType is empty, it changes nothing.
func (w *fixture) inject(secretType string) {
	w.sim.MutateWith(func(c apisim.Call, object map[string]any) {
		if secretType != "" && c.Verb == "create" && c.Resource.Resource == "secrets" {
			object["type"] = secretType
		}
	})
}

// typed is a child with an immutable type and a label.
func typed(secretType corev1.SecretType, label string) child {
	return child{Name: "a", Edit: func(s *corev1.Secret) {
		s.Type = secretType
		s.Labels = map[string]string{"seen": label}
	}}
}

// A webhook changes an immutable field of each new child. Without a memory each
// reconcile would delete the child.
func TestAChildThatIsCreatedAgainWithoutTheWantedValuesIsNotDeletedAgain(t *testing.T) {
	inFixture(t, &children.Options{MaxRecreate: 1}, func(w *fixture) {
		w.inject("example.com/injected")
		w.Expect(ensureAll(w, typed("example.com/a", "1"))).To(Succeed())
		w.Expect(ensureAll(w, typed("example.com/a", "2"))).To(MatchError(patch.IsStale, "IsStale"), "it is deleted once")
		w.Expect(ensureAll(w, typed("example.com/a", "2"))).To(Succeed())
		again := w.secret("a").UID
		w.requests()
		for _, label := range []string{"3", "4"} {
			err := ensureAll(w, typed("example.com/a", label))
			w.Expect(err).To(MatchError(And(ContainSubstring(`"d/a"`), ContainSubstring(
				"the child was deleted because its fields type are immutable, and was created again without the wanted values, "+
					"perhaps because an admission webhook changes them or another client has created it: not deleting it again, "+
					"so delete it when that is mended"))))
			w.Expect(patch.IsStale(err)).To(BeFalse())
			w.Expect(w.secret("a").Labels).To(HaveKeyWithValue("seen", label), "the rest is written")
		}
		w.Expect(count(w.requests(), "DELETE")).To(Equal(0))
		w.Expect(w.secret("a").UID).To(Equal(again))

		w.inject("") // the webhook is mended, and a person deletes the child
		w.delete("a")
		w.Expect(ensureAll(w, typed("example.com/a", "5"))).To(Succeed())
		w.Expect(ensureAll(w, typed("example.com/a", "5"))).To(Succeed())
		w.Expect(w.secret("a").Type).To(BeEquivalentTo("example.com/a"))

		err := ensureAll(w, typed("example.com/b", "5"))
		w.Expect(err).To(MatchError(patch.IsStale, "IsStale"), "other values may succeed")
		w.Expect(ensureAll(w, typed("example.com/b", "5"))).To(Succeed())
		w.Expect(ensureAll(w, typed("example.com/b", "5"))).To(Succeed())
		w.Expect(w.secret("a").Type).To(BeEquivalentTo("example.com/b"))

		w.delete("a")
		w.inject("example.com/injected")
		w.Expect(ensureAll(w, typed("example.com/b", "6"))).To(Succeed())
		w.inject("")
		err = ensureAll(w, typed("example.com/b", "6"))
		w.Expect(err).To(MatchError(patch.IsStale, "IsStale"), "it had the values meanwhile")
		w.Expect(ensureAll(w, typed("example.com/b", "6"))).To(Succeed())
		w.Expect(w.secret("a").Type).To(BeEquivalentTo("example.com/b"))
	})
}

// The child is late in the cache: it is still the one that was deleted.
func TestADeletedChildThatTheCacheStillHasWasNotCreatedAgain(t *testing.T) {
	inFixture(t, &children.Options{MaxRecreate: 1}, func(w *fixture) {
		w.Expect(ensureAll(w, typed("example.com/a", "1"))).To(Succeed())
		w.freeze()
		for range 2 {
			w.Expect(ensureAll(w, typed("example.com/b", "2"))).To(MatchError(patch.IsStale, "IsStale"))
		}
	})
}

// The whole controller, with a webhook that sets the podManagementPolicy: the
// StatefulSet was deleted and created again 15 times a minute, forever.
func TestAControllerDeletesAStatefulSetThatAWebhookChangesOnce(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		deleted := 0
		w.sim.MutateWith(func(c apisim.Call, object map[string]any) {
			if spec, ok := object["spec"].(map[string]any); ok && c.Verb == "create" {
				spec["podManagementPolicy"] = "Parallel"
			}
		})
		w.sim.OnAnswer(func(c apisim.Call, _ apisim.Answer) {
			if c.Verb == "delete" {
				deleted++
			}
		})
		sets := informer.For(w.client.AppsV1().StatefulSets(""), nil)
		owners := informer.For(w.client.CoreV1().ConfigMaps("d"), nil)
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, sets, w.client.AppsV1().StatefulSets,
			&children.Options{MaxRecreate: 1})
		reconciler := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			owner, ok := r.Object()
			if !ok {
				return reconcile.Result{}, nil
			}
			_, err := set.Ensure(ctx, owner, ordered("web"))
			return reconcile.Result{}, err
		}
		c, err := reconcile.New("test", owners, reconcile.Func[*corev1.ConfigMap](reconciler),
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(sets)}})
		w.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithTimeout(w.t.Context(), time.Hour)
		defer stop()
		w.Expect(c.Run(ctx)).To(Succeed())
		synctest.Wait()
		w.Expect(deleted).To(Equal(1))
		w.Expect(c.Stats().Failing).To(Equal(1), "the key says why")
	})
}

// ordered is a StatefulSet whose Pods start one after the other.
func ordered(name string) children.Child[*appsv1.StatefulSet] {
	return children.Child[*appsv1.StatefulSet]{Name: name, Edit: func(s *appsv1.StatefulSet) {
		labels := map[string]string{"app": name}
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
		s.Spec.Template.Labels = labels
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
	}}
}
