package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/reconcile"
)

// The key of a cluster-scoped owner was guessed from what the cache held at the
// time of the event.
func TestTheKeyOfAClusterScopedOwnerDoesNotDependOnTheCache(t *testing.T) {
	inFixture(t, func(w *fixture) {
		secret := secretOwnedBy("s", "Node", "node-1")
		_, err := w.client.CoreV1().Secrets("d").Create(t.Context(), secret, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		_, err = w.client.CoreV1().Nodes().Create(t.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		var listed atomic.Bool
		w.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !listed.Load(), nil, errors.New("not yet") // the secrets are there first
		})
		nodes := informer.For(w.client.CoreV1().Nodes(), nil)
		secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
		c, err := reconcile.New("test", nodes, reconcile.Func[*corev1.Node](
			func(_ context.Context, r reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
				w.ran(r.Key.String())
				return nothing, nil
			}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.startRun(c.Run)
		w.reconciled()
		listed.Store(true)
		pass(time.Minute)
		w.Expect(w.client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{})).To(Succeed())
		w.reconciled()
		w.Expect(w.client.CoreV1().Secrets("d").Delete(t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"/node-1"}), "the owner is deleted, and its scope is what it was")
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheGroupOfAnOwnerCountsAndItsVersionDoesNot(t *testing.T) {
	inFixture(t, func(w *fixture) {
		stop := w.startWith(reconcile.Owned[*corev1.Secret])
		w.reconciled()
		for version, runs := range map[string][]string{"example.com/v1": nil, "v1beta1": {"d/a"}} {
			secret := secretOwnedBy("s", "ConfigMap", "a")
			secret.OwnerReferences[0].APIVersion = version
			_, err := w.client.CoreV1().Secrets("d").Create(t.Context(), secret, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(w.reconciled()).To(Equal(runs), version)
			w.Expect(w.client.CoreV1().Secrets("d").Delete(t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
			w.reconciled()
		}
		w.Expect(stop()).To(Succeed())
	})
}

func TestOwnedNeedsAKindAndAScope(t *testing.T) {
	g := NewWithT(t)
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://localhost:1"})
	g.Expect(err).NotTo(HaveOccurred())
	resource := informer.Untyped(client.Resource(corev1.SchemeGroupVersion.WithResource("widgets")))
	for fault, o := range map[string]*informer.Options{
		"":                                 {Kind: "Widget", Scope: meta.RESTScopeNameRoot},
		"set informer.Options.Kind":        {Scope: meta.RESTScopeNameRoot},
		"set informer.Options.Scope":       {Kind: "Widget"},
		`Options.Kind is "Wdget": the cli`: {Kind: "Wdget", Scope: meta.RESTScopeNameRoot},
	} {
		in := informer.For(resource, o)
		_, err := reconcile.New("test", in, reconcile.Func[*unstructured.Unstructured](
			func(context.Context, reconcile.Request[*unstructured.Unstructured]) (reconcile.Result, error) {
				return nothing, nil
			}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(in)}})
		if fault == "" {
			g.Expect(err).NotTo(HaveOccurred())
			continue
		}
		g.Expect(err).To(MatchError(And(ContainSubstring(`making controller "test"`), ContainSubstring(fault))))
	}
}

// secretMarkedBy is a Secret that a ConfigMap owns by its labels.
func secretMarkedBy(namespace, name, owner string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	mark.Owner{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: key(owner), UID: "1"}.Put(s)
	return s
}

func TestOwnedFindsTheOwnerByTheMarkFromEveryNamespace(t *testing.T) {
	inFixture(t, func(w *fixture) {
		secrets := informer.For(w.client.CoreV1().Secrets(""), nil)
		_, err := w.client.CoreV1().Secrets("e").Create(t.Context(), secretMarkedBy("e", "s", "was-deleted"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}},
			func(_ context.Context, r request) (reconcile.Result, error) {
				w.ran(r.Key.String())
				return nothing, nil
			})
		w.Expect(w.reconciled()).To(Equal([]string{"d/was-deleted"}), "an owner that was deleted before the start")
		_, err = w.client.CoreV1().Secrets("e").Update(t.Context(), secretMarkedBy("e", "s", "a"), metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(ConsistOf("d/was-deleted", "d/a"))
		w.Expect(w.client.CoreV1().Secrets("e").Delete(t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"d/a"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestOwnedLeavesMarksOfOtherKinds(t *testing.T) {
	for name, owner := range map[string]mark.Owner{
		"group":              {GroupKind: schema.GroupKind{Group: "example.com", Kind: "ConfigMap"}, NamespacedName: key("a"), UID: "1"},
		"kind":               {GroupKind: schema.GroupKind{Kind: "Node"}, NamespacedName: key("a"), UID: "1"},
		"without namespace":  {GroupKind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: reconcile.Key{Name: "a"}, UID: "1"},
		"without a UID":      {GroupKind: schema.GroupKind{Kind: "ConfigMap"}, NamespacedName: key("a")},
		"without annotation": {},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				stop := w.startWith(reconcile.Owned[*corev1.Secret])
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s"}}
				if owner.Kind == "" {
					s = secretMarkedBy("d", "s", "a")
					s.Annotations = nil
				} else {
					owner.Put(s)
				}
				_, err := w.client.CoreV1().Secrets("d").Create(t.Context(), s, metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(w.reconciled()).To(BeEmpty())
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}
