package actors

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

// Deployments returns an actor that does the work of the controllers of Deployments and ReplicaSets: ReplicaSets for
// Deployments, Pods for ReplicaSets, owner references, the status of both with observedGeneration and conditions,
// scaling, and rollouts with maxSurge and maxUnavailable, or by recreating. The Pods stay Pending unless something runs
// them: [Kubelet].
//
// An old ReplicaSet is deleted when the rollout is over, and there are no revisions: their number would depend on how
// often the actor looked. Nothing is adopted, and progressDeadlineSeconds is not watched.
func Deployments() reconciletest.Actor {
	return (&routine{look: lookAtDeployments}).actor("deployments")
}

// fleet is what there is.
type fleet struct {
	now         time.Time
	deployments []appsv1.Deployment
	sets        []appsv1.ReplicaSet
	pods        []corev1.Pod
	due         time.Time // when a Pod becomes available
}

func lookAtDeployments(w *reconciletest.World, now time.Time) (todo []task, due time.Time, err error) {
	f := fleet{now: now}
	if f.deployments, err = reconciletest.List[appsv1.Deployment](w, "deployments.apps"); err != nil {
		return nil, time.Time{}, err
	}
	if f.sets, err = reconciletest.List[appsv1.ReplicaSet](w, "replicasets.apps"); err != nil {
		return nil, time.Time{}, err
	}
	if len(f.deployments) == 0 && len(f.sets) == 0 {
		return nil, time.Time{}, nil
	}
	if f.pods, err = reconciletest.List[corev1.Pod](w, "pods"); err != nil {
		return nil, time.Time{}, err
	}
	return f.tasks(), f.due, nil
}

// tasks are the changes first, what is too much before what is missing, and then the reports of ReplicaSets, and of
// Deployments, which sum those up.
func (f *fleet) tasks() []task {
	var changes, missing, reports []task
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

// setsOf are the ReplicaSets of a Deployment: the one of its template, if there is one, and the others, the oldest
// first.
func (f *fleet) setsOf(d *appsv1.Deployment) (current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	for i := range f.sets {
		s := &f.sets[i]
		switch {
		case !metav1.IsControlledBy(s, d) || s.DeletionTimestamp != nil:
		case current == nil && sameTemplate(&s.Spec.Template, &d.Spec.Template):
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

// sameTemplate compares, but for the label that only those of ReplicaSets have.
func sameTemplate(ofSet, ofDeployment *corev1.PodTemplateSpec) bool {
	ofSet = ofSet.DeepCopy()
	delete(ofSet.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(ofSet, ofDeployment)
}

// rollOut makes, scales and deletes the ReplicaSets of a Deployment.
func (f *fleet) rollOut(d *appsv1.Deployment) []task {
	current, old := f.setsOf(d)
	switch {
	case d.Spec.Paused:
		return scaleOnly(d, current, old)
	case current == nil && recreates(d) && f.anyPods(old):
		return shrink(old, total(old))
	case current == nil:
		return []task{newSet(d, min(replicas(d.Spec.Replicas), room(d, old)))}
	}
	if todo := shift(d, current, old); len(todo) > 0 {
		return todo
	}
	if current.Status.AvailableReplicas < replicas(d.Spec.Replicas) {
		return nil
	}
	var todo []task
	for _, s := range old {
		if replicas(s.Spec.Replicas) == 0 && len(f.podsOf(s)) == 0 {
			todo = append(todo, removeSet(s))
		}
	}
	return todo
}

// scaleOnly is for a Deployment that is paused: with several ReplicaSets, they stay as they are.
func scaleOnly(d *appsv1.Deployment, current *appsv1.ReplicaSet, sets []*appsv1.ReplicaSet) []task {
	if current != nil {
		sets = append(sets, current)
	}
	if want := replicas(d.Spec.Replicas); len(sets) == 1 && replicas(sets[0].Spec.Replicas) != want {
		return []task{resizeSet(sets[0], want)}
	}
	return nil
}

// shift scales the current ReplicaSet up as far as there is room, and the others down as far as enough is available.
func shift(d *appsv1.Deployment, current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []task {
	want, have := replicas(d.Spec.Replicas), replicas(current.Spec.Replicas)
	if size := min(want, have+room(d, append(old, current))); size != have {
		return []task{resizeSet(current, size)}
	}
	_, unavailable := bounds(d)
	coming := max(have-current.Status.AvailableReplicas, 0)
	return shrink(old, have+total(old)-coming-(want-unavailable))
}

// shrink takes so many replicas away, the oldest first.
func shrink(sets []*appsv1.ReplicaSet, drop int32) []task {
	var todo []task
	for _, s := range sets {
		size := replicas(s.Spec.Replicas)
		if n := min(max(drop, 0), size); n > 0 {
			todo, drop = append(todo, resizeSet(s, size-n)), drop-n
		}
	}
	return todo
}

// room is how many more Pods a Deployment may have at once.
func room(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) int32 {
	surge, _ := bounds(d)
	return max(replicas(d.Spec.Replicas)+surge-total(sets), 0)
}

func total(sets []*appsv1.ReplicaSet) int32 {
	n := int32(0)
	for _, s := range sets {
		n += replicas(s.Spec.Replicas)
	}
	return n
}

func recreates(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// bounds are how many Pods there may be more, and how many fewer be available, than the Deployment wants.
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
	up, _ := intstr.GetScaledValueFromIntOrPercent(maxSurge, want, true)
	down, _ := intstr.GetScaledValueFromIntOrPercent(maxUnavailable, want, false)
	if up == 0 && down == 0 {
		down = 1
	}
	return int32(up), int32(min(down, want)) //nolint:gosec // both are small
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// templateHash names a template.
func templateHash(t *corev1.PodTemplateSpec) string {
	body, _ := json.Marshal(t) // of plain structs
	h := fnv.New32a()
	_, _ = h.Write(body)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

func newSet(d *appsv1.Deployment, size int32) task {
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

func resizeSet(s *appsv1.ReplicaSet, size int32) task {
	s = s.DeepCopy()
	s.Spec.Replicas = &size
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.AppsV1().ReplicaSets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
}

func removeSet(s *appsv1.ReplicaSet) task {
	background := metav1.DeletePropagationBackground
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.AppsV1().ReplicaSets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &s.UID},
		})
	}
}
