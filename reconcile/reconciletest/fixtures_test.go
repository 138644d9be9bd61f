package reconciletest_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A parent is a ConfigMap with the label parent; it gets a Secret, and then the annotation ready.
func parent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, Labels: map[string]string{"parent": "yes"},
	}}
}

func child(of *corev1.ConfigMap) *corev1.Secret {
	yes := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name + "-child",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: of.Name, UID: of.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
}

// breeder is a controller of parents; turn is what it does, right or wrong.
type breeder struct {
	client   kubernetes.Interface
	children *informer.Informer[*corev1.Secret]
	turn     func(ctx context.Context, b *breeder, p *corev1.ConfigMap) error
}

func (b *breeder) Reconcile(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
	p, ok := r.Object()
	if !ok || p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, b.turn(ctx, b, p)
}

// childrenOf are those that the cache knows.
func (b *breeder) childrenOf(p *corev1.ConfigMap) []*corev1.Secret {
	var all []*corev1.Secret
	for s := range b.children.Snapshot().All() {
		if slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID }) {
			all = append(all, s)
		}
	}
	return all
}

func (b *breeder) ready(ctx context.Context, p *corev1.ConfigMap) error {
	_, err := patch.Merge(ctx, b.client.CoreV1().ConfigMaps, p, nil, func(edit *corev1.ConfigMap) {
		metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "ready", "yes")
	})
	return err
}

func (b *breeder) create(ctx context.Context, s *corev1.Secret) error {
	_, err := b.client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

type turn = func(ctx context.Context, b *breeder, p *corev1.ConfigMap) error

// right makes the child under a name that follows from the parent, and says so last.
func right(ctx context.Context, b *breeder, p *corev1.ConfigMap) error {
	if len(b.childrenOf(p)) == 0 {
		if err := b.create(ctx, child(p)); err != nil {
			return err
		}
	}
	return b.ready(ctx, p)
}

func breed(t turn) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
		b := &breeder{client: client, children: informer.For(client.CoreV1().Secrets(""), nil), turn: t}
		c, err := reconcile.New("breeder", parents, b,
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.children)}})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// breeding is the case of a breeder: one parent is there, one comes, one goes.
func breeding(t turn) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{parent("a")},
		Run:     breed(t),
		Workload: []reconciletest.Step{
			reconciletest.Create(parent("b")),
			reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"1"}}`),
			reconciletest.Delete("configmaps", "d/b"),
		},
		Goal: func(w *reconciletest.World) error {
			secrets, err := reconciletest.List[corev1.Secret](w, "secrets")
			if err != nil {
				return err
			}
			if len(secrets) != 1 {
				return fmt.Errorf("%d children: want one, of the one parent that is left", len(secrets))
			}
			return nil
		},
	}
}

// testBudget is more than any bug of the tests needs.
const testBudget = 5 * time.Minute
