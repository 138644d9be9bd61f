// Package deployments does the work of the controllers of Deployments and
// ReplicaSets, one write after the other.
package deployments

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Task makes one write to the server.
type Task = func(ctx context.Context, client kubernetes.Interface) error

// fleet contains the objects that the controllers of Deployments and
// ReplicaSets look at.
type fleet struct {
	now         time.Time
	seen        *Cache
	deployments []appsv1.Deployment
	sets        []appsv1.ReplicaSet
	pods        []corev1.Pod
	due         time.Time // when the next Pod becomes available
}

// Look returns the tasks to do now, and the time at which the next Pod becomes
// available. That time is zero if no Pod is about to become available. seen
// caches decoded objects between calls. Look reads the world itself and not a
// cache, so it never sees a stale object.
func Look(w *reconciletest.World, seen *Cache, now time.Time) (todo []Task, due time.Time, err error) {
	f := fleet{now: now, seen: seen}
	if f.deployments, err = Objects[appsv1.Deployment](w, seen, "deployments.apps"); err != nil {
		return nil, time.Time{}, err
	}
	if f.sets, err = Objects[appsv1.ReplicaSet](w, seen, "replicasets.apps"); err != nil {
		return nil, time.Time{}, err
	}
	if len(f.deployments) == 0 && len(f.sets) == 0 {
		return nil, time.Time{}, nil
	}
	if f.pods, err = Objects[corev1.Pod](w, seen, "pods"); err != nil {
		return nil, time.Time{}, err
	}
	return f.tasks(), f.due, nil
}

// tasks returns the tasks in order. Changes are first: of ReplicaSets, then
// deletions and then creations of Pods. Then come the statuses of ReplicaSets,
// and then the statuses of Deployments, because they are sums over their
// ReplicaSets.
func (f *fleet) tasks() []Task {
	var changes, missing, reports []Task
	for i := range f.deployments {
		if d := &f.deployments[i]; d.DeletionTimestamp == nil {
			changes = append(changes, f.rollOut(d)...)
		}
	}
	for i := range f.sets {
		if s := &f.sets[i]; s.DeletionTimestamp == nil {
			changes = append(changes, f.excess(s)...)
			if len(f.active(s)) < int(replicas(s.Spec.Replicas)) {
				missing = append(missing, newPod(s))
			}
			reports = append(reports, f.reportSet(s)...)
		}
	}
	for i := range f.deployments {
		if d := &f.deployments[i]; d.DeletionTimestamp == nil {
			reports = append(reports, f.reportDeployment(d)...)
		}
	}
	return slices.Concat(changes, missing, reports)
}

// setsOf returns the ReplicaSets of a Deployment that are not being deleted.
// current has the Deployment's template, and is nil if there is no such
// ReplicaSet. old has the others, the oldest first.
func (f *fleet) setsOf(d *appsv1.Deployment) (current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	for i := range f.sets {
		s := &f.sets[i]
		switch {
		case !metav1.IsControlledBy(s, d) || s.DeletionTimestamp != nil:
		case current == nil && f.hasTemplate(s, d):
			current = s
		default:
			old = append(old, s)
		}
	}
	slices.SortStableFunc(old, func(a, b *appsv1.ReplicaSet) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return current, old
}

// hasTemplate reports whether a ReplicaSet has the template of the Deployment.
func (f *fleet) hasTemplate(s *appsv1.ReplicaSet, d *appsv1.Deployment) bool {
	key := [4]string{string(s.UID), s.ResourceVersion, string(d.UID), d.ResourceVersion}
	isEqual, found := f.seen.sameTemplates[key]
	if !found {
		isEqual = sameTemplate(&s.Spec.Template, &d.Spec.Template)
		f.seen.sameTemplates[key] = isEqual
	}
	return isEqual
}

// sameTemplate reports whether the templates are equal, except for the label
// that only the templates of ReplicaSets have.
func sameTemplate(ofSet, ofDeployment *corev1.PodTemplateSpec) bool {
	ofSet = ofSet.DeepCopy()
	delete(ofSet.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(ofSet, ofDeployment)
}

// rollOut returns the tasks that create, scale and delete the ReplicaSets of a
// Deployment.
func (f *fleet) rollOut(d *appsv1.Deployment) []Task {
	current, old := f.setsOf(d)
	switch {
	case d.Spec.Paused:
		return scaleOnly(d, current, old)
	case current == nil && recreates(d) && f.anyPods(old):
		return shrink(old, total(old))
	case current == nil:
		return []Task{newSet(d, min(replicas(d.Spec.Replicas), room(d, old)))}
	}
	if todo := shift(d, current, old); len(todo) > 0 {
		return todo
	}
	if current.Status.AvailableReplicas < replicas(d.Spec.Replicas) {
		return nil
	}
	var todo []Task
	for _, s := range old {
		if replicas(s.Spec.Replicas) == 0 && len(f.podsOf(s)) == 0 {
			todo = append(todo, removeSet(s))
		}
	}
	return todo
}

// scaleOnly returns the tasks for a paused Deployment. It scales a single
// ReplicaSet, and leaves several ReplicaSets as they are.
func scaleOnly(d *appsv1.Deployment, current *appsv1.ReplicaSet, sets []*appsv1.ReplicaSet) []Task {
	if current != nil {
		sets = append(sets, current)
	}
	if want := replicas(d.Spec.Replicas); len(sets) == 1 && replicas(sets[0].Spec.Replicas) != want {
		return []Task{resizeSet(sets[0], want)}
	}
	return nil
}

// shift returns the task that scales the current ReplicaSet, up as far as
// maxSurge allows. If that ReplicaSet need not be scaled now, shift returns the
// tasks that scale the others down as far as maxUnavailable allows.
func shift(d *appsv1.Deployment, current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Task {
	want, have := replicas(d.Spec.Replicas), replicas(current.Spec.Replicas)
	if size := min(want, have+room(d, append(old, current))); size != have {
		return []Task{resizeSet(current, size)}
	}
	_, unavailable := bounds(d)
	coming := max(have-current.Status.AvailableReplicas, 0)
	return shrink(old, have+total(old)-coming-(want-unavailable))
}

// shrink returns the tasks that remove as many replicas from sets as drop says,
// starting with the oldest ReplicaSets.
func shrink(sets []*appsv1.ReplicaSet, drop int32) []Task {
	var todo []Task
	for _, s := range sets {
		size := replicas(s.Spec.Replicas)
		if n := min(max(drop, 0), size); n > 0 {
			todo, drop = append(todo, resizeSet(s, size-n)), drop-n
		}
	}
	return todo
}

// room returns how many more Pods a Deployment may have at once.
func room(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) int32 {
	surge, _ := bounds(d)
	return max(replicas(d.Spec.Replicas)+surge-total(sets), 0)
}

// total returns the sum of the replicas that the ReplicaSets want.
func total(sets []*appsv1.ReplicaSet) int32 {
	n := int32(0)
	for _, s := range sets {
		n += replicas(s.Spec.Replicas)
	}
	return n
}

// recreates reports whether all old Pods are deleted before new ones are
// created.
func recreates(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// bounds returns by how many the number of Pods may exceed the replicas of the
// Deployment, and by how many the number of available Pods may fall short of
// them.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	if recreates(d) {
		return 0, replicas(d.Spec.Replicas)
	}
	quarter := intstr.FromString("25%")
	maxSurge, maxUnavailable := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		maxSurge = intstr.ValueOrDefault(r.MaxSurge, quarter)
		maxUnavailable = intstr.ValueOrDefault(r.MaxUnavailable, quarter)
	}
	want := int(replicas(d.Spec.Replicas))
	extra, _ := intstr.GetScaledValueFromIntOrPercent(maxSurge, want, true)
	missing, _ := intstr.GetScaledValueFromIntOrPercent(maxUnavailable, want, false)
	if extra == 0 && missing == 0 {
		missing = 1
	}
	return int32(extra), int32(min(missing, want)) //nolint:gosec // both are small
}

// replicas returns n, or the API server's default of 1 if n is nil.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// templateHash returns a short hash that identifies a template.
func templateHash(t *corev1.PodTemplateSpec) string {
	body, _ := json.Marshal(t) // plain structs can always be encoded
	h := fnv.New32a()
	_, _ = h.Write(body)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// newSet returns a task that creates the ReplicaSet for a Deployment's
// template. As in a real cluster, the name is derived from the template, so a
// second attempt finds that the ReplicaSet exists.
func newSet(d *appsv1.Deployment, size int32) Task {
	hash := templateHash(&d.Spec.Template)
	template := *d.Spec.Template.DeepCopy()
	metav1.SetMetaDataLabel(&template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	s := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
			},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &size, MinReadySeconds: d.Spec.MinReadySeconds, Template: template,
			Selector: metav1.AddLabelToSelector(d.Spec.Selector.DeepCopy(), appsv1.DefaultDeploymentUniqueLabelKey, hash),
		},
	}
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.AppsV1().ReplicaSets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	}
}

// resizeSet returns a task that sets the replicas of a ReplicaSet. It fails if
// the ReplicaSet has changed since the actor looked.
func resizeSet(s *appsv1.ReplicaSet, size int32) Task {
	s = s.DeepCopy()
	s.Spec.Replicas = &size
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.AppsV1().ReplicaSets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
}

// removeSet returns a task that deletes a ReplicaSet, unless it was recreated.
// The garbage collector then deletes its Pods.
func removeSet(s *appsv1.ReplicaSet) Task {
	background := metav1.DeletePropagationBackground
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.AppsV1().ReplicaSets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &s.UID},
		})
	}
}

// Sooner returns the earlier of two times. The zero time counts as later than
// all others.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
