// Package mirror keeps a copy of a Secret in every namespace that a
// SecretMirror selects.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

// Name is the name of the program and of its field manager.
const Name = "mirror"

// errNoSource means that the source of a mirror does not exist. The mirror's
// copies stay. The mirror is reconciled again when its source is created.
var errNoSource = errors.New("the source does not exist")

// errNoCondition is the error of an empty selector.
var errNoCondition = errors.New("spec.namespaces has no condition, perhaps because a label without a value was " +
	"dropped: correct it; {key: kubernetes.io/metadata.name, operator: Exists} in matchExpressions selects all namespaces")

// mirrors is the reconciler of SecretMirrors. It reads the caches of mirrors,
// namespaces and Secrets, and writes the copies.
type mirrors struct {
	env        operator.Env
	kind       *cluster.Kind[*SecretMirror, *SecretMirrorList]
	cache      *informer.Informer[*SecretMirror]
	bySource   *informer.Index[*SecretMirror, types.NamespacedName]
	namespaces *informer.Informer[*corev1.Namespace]
	secrets    *informer.Informer[*corev1.Secret] // the cache of sources and copies
	copies     *children.Set[*corev1.Secret]
}

// Setup returns the controller for [operator.Program].
func Setup(env operator.Env) ([]*reconcile.Controller, error) {
	k, err := NewKind(env.Cluster)
	if err != nil {
		return nil, err
	}
	core := env.Cluster.Client().CoreV1()
	m := &mirrors{
		env: env, kind: k, cache: informer.For(k.In(""), nil),
		namespaces: informer.For(core.Namespaces(), nil), secrets: informer.For(core.Secrets(""), nil),
	}
	m.bySource = informer.NewIndex(m.cache, func(m *SecretMirror) []types.NamespacedName {
		return []types.NamespacedName{m.Spec.Source.Key()}
	})
	m.copies = children.New(groupVersion.WithKind("SecretMirror"), k.In, m.secrets, core.Secrets,
		&children.Options{ByLabel: true, MaxRecreate: 10})
	options := env.Options()
	options.Triggers = []reconcile.Trigger{
		reconcile.Owned(m.secrets), reconcile.Mapped(m.secrets, m.keysOfSource),
		reconcile.Mapped(m.namespaces, m.keysOfNamespace),
	}
	c, err := reconcile.New(Name, m.cache, m, options)
	return []*reconcile.Controller{c}, err
}

// keysOfSource returns the keys of the mirrors whose source is the Secret that
// changed.
func (m *mirrors) keysOfSource(_ context.Context, oldSecret, newSecret *corev1.Secret) (keys []reconcile.Key, _ error) {
	secret := cmp.Or(newSecret, oldSecret)
	for mirror := range m.bySource.Get(types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}) {
		keys = append(keys, reconcile.Key{Name: mirror.Name})
	}
	return keys, nil
}

// keysOfNamespace returns the keys of the mirrors that selected a namespace
// before its change, or select it after the change.
func (m *mirrors) keysOfNamespace(
	_ context.Context, oldNamespace, newNamespace *corev1.Namespace,
) (keys []reconcile.Key, _ error) {
	for mirror := range m.cache.Snapshot().All() {
		if selects(mirror, oldNamespace) || selects(mirror, newNamespace) {
			keys = append(keys, reconcile.Key{Name: mirror.Name})
		}
	}
	return keys, nil
}

// selects reports whether a mirror keeps a copy in namespace n. It returns
// false if n is nil or is the namespace of the source, or if the mirror's
// selector is invalid. It also returns false if n is being deleted, because the
// server creates no objects in such a namespace.
func selects(mirror *SecretMirror, n *corev1.Namespace) bool {
	if n == nil || n.DeletionTimestamp != nil || n.Name == mirror.Spec.Source.Namespace {
		return false
	}
	selector, err := selectorOf(mirror)
	return err == nil && selector.Matches(labels.Set(n.Labels))
}

// selectorOf returns the selector of the namespaces that get a copy. It returns
// an error if the selector is malformed or empty. A template that sets a label
// to null leads to an empty selector, which would select all namespaces.
func selectorOf(mirror *SecretMirror) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&mirror.Spec.Namespaces)
	if err != nil {
		return nil, err
	}
	if selector.Empty() {
		return nil, errNoCondition
	}
	return selector, nil
}

// Reconcile makes the copies of one mirror equal to its source. It creates
// missing copies in the namespaces that the mirror selects, and deletes copies
// in all other namespaces.
func (m *mirrors) Reconcile(ctx context.Context, r reconcile.Request[*SecretMirror]) (reconcile.Result, error) {
	mirror, ok := r.Object()
	if !ok {
		return reconcile.Result{}, m.copies.DeleteOrphans(ctx, r.Key)
	}
	if mirror.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // a later reconcile finds that it does not exist
	}
	wanted, err := m.copy(ctx, mirror)
	if patch.IsStale(err) {
		return reconcile.Result{}, err // the cache was stale, and the next reconcile reads a newer one
	}
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Copied"}
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonOf(err), err.Error()
		m.env.Events.Eventf(mirror, nil, corev1.EventTypeWarning, condition.Reason, "Copy", "%s", condition.Message)
	}
	_, failed := patch.Status(ctx, m.kind.In, mirror, nil, func(edit *SecretMirror) {
		edit.Status.Copies = int64(wanted)
		meta.SetStatusCondition(&edit.Status.Conditions, condition)
	})
	return reconcile.Result{}, errors.Join(err, failed)
}

// copy creates, updates and deletes the copies of a mirror, and returns the
// number of copies that the mirror should have.
func (m *mirrors) copy(ctx context.Context, mirror *SecretMirror) (int, error) {
	if _, err := selectorOf(mirror); err != nil {
		return 0, reconcile.Terminal(err) // the copies stay: an invalid selector must not delete them
	}
	source, ok := m.secrets.Get(mirror.Spec.Source.Key())
	if !ok {
		return 0, reconcile.Terminal(fmt.Errorf("copying Secret %q for SecretMirror %q: %w", mirror.Spec.Source.Key(),
			mirror.Name, errNoSource))
	}
	edit := func(s *corev1.Secret) { s.Type, s.Data = source.Type, source.DeepCopy().Data }
	var wanted []children.Child[*corev1.Secret]
	for n := range m.namespaces.Snapshot().All() {
		if selects(mirror, n) {
			wanted = append(wanted, children.Child[*corev1.Secret]{Namespace: n.Name, Name: source.Name, Edit: edit})
		}
	}
	_, err := m.copies.Ensure(ctx, mirror, wanted...)
	return len(wanted), err
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errNoSource):
		return "NoSource"
	case errors.Is(err, children.ErrForeign):
		return "Conflict"
	case errors.Is(err, children.ErrLimit):
		return "TooManyDeletions"
	}
	return "Failed"
}
