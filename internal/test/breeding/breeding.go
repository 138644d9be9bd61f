// Package breeding has the small controller that the tests of package reconciletest and of those below it run: it gives
// each parent a child.
package breeding

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Budget is more than any bug of the tests needs.
const Budget = 5 * time.Minute

// Parent is a ConfigMap with the label parent; it gets a Secret, and then the annotation ready.
func Parent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, Labels: map[string]string{"parent": "yes"},
	}}
}

// Child is the Secret of a parent.
func Child(of *corev1.ConfigMap) *corev1.Secret {
	yes := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name + "-child",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: of.Name, UID: of.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
}

// Breed is a breeder's work for a parent, right or wrong.
type Breed = func(ctx context.Context, b *Breeder, p *corev1.ConfigMap) error

// Breeder is a controller of parents.
type Breeder struct {
	Client   kubernetes.Interface
	Children *informer.Informer[*corev1.Secret]
	Breed    Breed
}

// Reconcile breeds for a parent that is there and stays.
func (b *Breeder) Reconcile(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
	p, ok := r.Object()
	if !ok || p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, b.Breed(ctx, b, p)
}

// ChildrenOf returns those that the cache knows.
func (b *Breeder) ChildrenOf(p *corev1.ConfigMap) []*corev1.Secret {
	var all []*corev1.Secret
	for s := range b.Children.Snapshot().All() {
		if slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID }) {
			all = append(all, s)
		}
	}
	return all
}

// Ready marks a parent as done.
func (b *Breeder) Ready(ctx context.Context, p *corev1.ConfigMap) error {
	return b.Annotate(ctx, p, "ready", "yes")
}

// Annotate writes without asking whether it is needed.
func (b *Breeder) Annotate(ctx context.Context, p *corev1.ConfigMap, key, value string) error {
	_, err := patch.Merge(ctx, b.Client.CoreV1().ConfigMaps, p, nil, func(edit *corev1.ConfigMap) {
		metav1.SetMetaDataAnnotation(&edit.ObjectMeta, key, value)
	})
	return err
}

// Create makes a child, unless it is there.
func (b *Breeder) Create(ctx context.Context, s *corev1.Secret) error {
	_, err := b.Client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Right makes the child under a name that follows from the parent, and says so last.
func Right(ctx context.Context, b *Breeder, p *corev1.ConfigMap) error {
	if len(b.ChildrenOf(p)) == 0 {
		if err := b.Create(ctx, Child(p)); err != nil {
			return err
		}
	}
	return b.Ready(ctx, p)
}

// Premature says that it is done before it is.
func Premature(ctx context.Context, b *Breeder, p *corev1.ConfigMap) error {
	if p.Annotations["ready"] != "" {
		return nil
	}
	if err := b.Ready(ctx, p); err != nil {
		return err
	}
	return b.Create(ctx, Child(p))
}

// Parents returns an informer of all parents.
func Parents(client kubernetes.Interface) *informer.Informer[*corev1.ConfigMap] {
	return informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
}

// Run returns the program that breeds.
func Run(breed Breed) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		b := &Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil), Breed: breed}
		c, err := reconcile.New("breeder", Parents(client), b,
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)}})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// Led returns a program that breeds while it leads; fenced: its clients refuse to write when it does not.
func Led(fenced bool, breed Breed) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		elector, err := leader.New(leader.Lease{
			Client: env.Client().CoordinationV1(), Namespace: "d", Name: "breeder", Identity: "r" + strconv.Itoa(env.Replica()),
		}, nil)
		if err != nil {
			return err
		}
		client := env.Client()
		if fenced {
			client = kubernetes.NewForConfigOrDie(elector.Fence(env.Config()))
		}
		b := &Breeder{Client: client, Children: informer.For(client.CoreV1().Secrets(""), nil), Breed: breed}
		c, err := reconcile.New("breeder", Parents(client), b, &reconcile.Options{
			Leader: elector, Triggers: []reconcile.Trigger{reconcile.Owned(b.Children)},
		})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// Case is the case of a breeder: one parent is there, one is created, one is deleted.
func Case(breed Breed) *reconciletest.Case {
	return &reconciletest.Case{
		Objects: []runtime.Object{Parent("a")},
		Run:     Run(breed),
		Workload: []reconciletest.Step{
			reconciletest.Create(Parent("b")),
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
