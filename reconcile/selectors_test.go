package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// late is a client whose watch delivers every event late, once the first list
// is through.
type late[T informer.Object, L runtime.Object] struct{ informer.Client[T, L] }

func (l late[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.Client.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner, 5*time.Second), nil
}

// createdByALateController runs a controller that creates an object in each
// reconcile for which the cache has no object, and returns how many it has
// created.
func createdByALateController[T informer.Object, L runtime.Object](
	t *testing.T, client func(kubernetes.Interface) informer.Client[T, L], selector string,
	create func(context.Context, kubernetes.Interface) error,
) int {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Incomplete: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sim.Load(configMapNamed("a"))).To(Succeed())
	clientset := reporters["seen by the transport"].client(g, sim)
	cached := informer.For(late[T, L]{client(clientset)}, &informer.Options{FieldSelector: selector})
	w := &fixture{WithT: g, t: t, in: informer.For(clientset.CoreV1().ConfigMaps("d"), nil)}
	made := 0
	stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(cached)}},
		func(ctx context.Context, _ request) (reconcile.Result, error) {
			if cached.Snapshot().Len() > 0 {
				return nothing, nil
			}
			made++
			return reconcile.After(time.Second), create(ctx, clientset)
		})
	pass(time.Minute)
	g.Expect(stop()).To(Succeed())
	return made
}

// A server selects by values that differ from the values in the object.
func TestAControllerSeesItsWritesInACacheWithAFieldSelector(t *testing.T) {
	pods := func(selector string, spec corev1.PodSpec) func(t *testing.T) int {
		return func(t *testing.T) int {
			return createdByALateController(t, func(c kubernetes.Interface) informer.Client[*corev1.Pod, *corev1.PodList] {
				return c.CoreV1().Pods("d")
			}, selector, func(ctx context.Context, c kubernetes.Interface) error {
				_, err := c.CoreV1().Pods("d").Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: spec,
				}, metav1.CreateOptions{})
				return err
			})
		}
	}
	for name, created := range map[string]func(t *testing.T) int{
		"a boolean":              pods("spec.hostNetwork=true", corev1.PodSpec{HostNetwork: true}),
		"a boolean that is none": pods("spec.hostNetwork=false", corev1.PodSpec{}),
		"an old name":            pods("spec.host=n", corev1.PodSpec{NodeName: "n"}),
		"a number under another name": func(t *testing.T) int {
			return createdByALateController(t, func(c kubernetes.Interface) informer.Client[*batchv1.Job, *batchv1.JobList] {
				return c.BatchV1().Jobs("d")
			}, "status.successful=0", func(ctx context.Context, c kubernetes.Interface) error {
				_, err := c.BatchV1().Jobs("d").Create(ctx, &batchv1.Job{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "j-"},
				}, metav1.CreateOptions{})
				return err
			})
		},
		"the source of an Event": func(t *testing.T) int {
			return createdByALateController(t, func(c kubernetes.Interface) informer.Client[*corev1.Event, *corev1.EventList] {
				return c.CoreV1().Events("d")
			}, "source=me", func(ctx context.Context, c kubernetes.Interface) error {
				_, err := c.CoreV1().Events("d").Create(ctx, &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}, Source: corev1.EventSource{Component: "me"},
					InvolvedObject: corev1.ObjectReference{Namespace: "d"},
				}, metav1.CreateOptions{})
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { NewWithT(t).Expect(created(t)).To(Equal(1)) })
		})
	}
}
