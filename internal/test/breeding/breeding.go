// Package breeding has a small controller for the tests of package
// reconciletest and of the packages below it. The controller gives each parent
// a child.
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

// Budget limits how long a test searches for a bug. Each of the bugs is found
// in less time.
const Budget = 5 * time.Minute

// Parent returns a ConfigMap with the label parent. The controller gives it a
// Secret, and then the annotation ready.
func Parent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, Labels: map[string]string{"parent": "yes"},
	}}
}

// Child returns the Secret that the controller has to create for a parent.
func Child(parent *corev1.ConfigMap) *corev1.Secret {
	yes := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: parent.Namespace, Name: parent.Name + "-child",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: parent.Name, UID: parent.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
}

// Breed is a function that reconciles one parent. It may contain a bug on
// purpose.
type Breed = func(ctx context.Context, b *Breeder, p *corev1.ConfigMap) error

// Breeder is a controller of parents.
type Breeder struct {
	Client   kubernetes.Interface
	Children *informer.Informer[*corev1.Secret]
	Breed    Breed
}

// Reconcile calls Breed for a parent that exists and is not being deleted.
func (b *Breeder) Reconcile(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
	p, ok := r.Object()
	if !ok || p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, b.Breed(ctx, b, p)
}

// ChildrenOf returns the children of p in the cache.
func (b *Breeder) ChildrenOf(p *corev1.ConfigMap) []*corev1.Secret {
	var children []*corev1.Secret
	for s := range b.Children.Snapshot().All() {
		if slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID }) {
			children = append(children, s)
		}
	}
	return children
}

// Ready sets the annotation ready of a parent.
func (b *Breeder) Ready(ctx context.Context, p *corev1.ConfigMap) error {
	return b.Annotate(ctx, p, "ready", "yes")
}

// Annotate sets an annotation. It sends no request if p already has the same
// value.
func (b *Breeder) Annotate(ctx context.Context, p *corev1.ConfigMap, key, value string) error {
	_, err := patch.Merge(ctx, b.Client.CoreV1().ConfigMaps, p, nil, func(edit *corev1.ConfigMap) {
		metav1.SetMetaDataAnnotation(&edit.ObjectMeta, key, value)
	})
	return err
}

// Create creates a child. It is not an error if the child exists.
func (b *Breeder) Create(ctx context.Context, s *corev1.Secret) error {
	_, err := b.Client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Right is correct: it creates a child whose name is derived from the parent,
// and then marks the parent as ready.
func Right(ctx context.Context, b *Breeder, p *corev1.ConfigMap) error {
	if len(b.ChildrenOf(p)) == 0 {
		if err := b.Create(ctx, Child(p)); err != nil {
			return err
		}
	}
	return b.Ready(ctx, p)
}

// Premature is wrong: it marks the parent as ready before it creates the child.
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

// Run returns a program that runs the controller. The controller calls breed
// for each parent.
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

// Led returns a program that runs the controller while it leads. The controller
// calls breed for each parent. If fenced is true, its clients refuse to write
// while it does not lead.
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

// Case returns a case that runs the program Run(breed). One parent exists at
// the start and is changed later. A second parent is created and then deleted.
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
				return fmt.Errorf("there are %d children: want one, for the one parent that is left", len(secrets))
			}
			return nil
		},
	}
}
