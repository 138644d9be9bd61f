package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// latePods is a client whose watch is five seconds late.
type latePods struct{ typedcorev1.PodInterface }

func (l latePods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.PodInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner, 5*time.Second), nil
}

// podClients returns the client of a namespace.
type podClients func(namespace string) typedcorev1.PodInterface

// writers are all helpers that write, each in a reconcile that has read pod.
var writers = map[string]func(ctx context.Context, c podClients, pod *corev1.Pod) error{
	"patch.Merge": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.Merge(ctx, c, pod, nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" })
		return err
	},
	"patch.Status": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.Status(ctx, c, pod, nil, func(p *corev1.Pod) { p.Status.Reason = "b" })
		return err
	},
	"patch.Ensure of what is there": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.Ensure(ctx, c, pod, nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" })
		return err
	},
	"patch.Ensure of what is not": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.Ensure(ctx, c, podNamed("another"), nil, func(p *corev1.Pod) { p.Spec = pod.Spec })
		return err
	},
	"an Applier": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.NewApplier(c).Apply(ctx, pod, nil,
			applycorev1.Pod(pod.Name, pod.Namespace).WithLabels(map[string]string{"a": "b"}))
		return err
	},
	"an Applier of the status": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, err := patch.NewApplier(c).Apply(ctx, pod, &patch.Options{Subresource: "status"},
			applycorev1.Pod(pod.Name, pod.Namespace).WithStatus(applycorev1.PodStatus().WithReason("b")))
		return err
	},
	"patch.Delete": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		return patch.Delete(ctx, c, pod, nil)
	},
	"a Finalizer": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		_, _, err := patch.Finalizer[*corev1.Pod, typedcorev1.PodInterface]{
			Name: "example.com/a", Client: c, Clean: func(context.Context, *corev1.Pod) error { return nil },
		}.Guard(ctx, pod)
		return err
	},
	"another client and Wrote": func(ctx context.Context, c podClients, pod *corev1.Pod) error {
		pod = pod.DeepCopy()
		pod.Labels = map[string]string{"a": "b"}
		written, err := c(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
		if err == nil {
			reconcile.Wrote(ctx, written)
		}
		return err
	},
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "a"}}},
	}
}

// A reconcile writes and asks for the next one in a second. That one comes when
// the cache, which is five seconds late, has seen the write: later than it was
// asked for, and earlier than the deadline. So the helper has reported the
// write.
func TestHelpersThatWriteHoldTheKeyBackUntilTheCacheHasSeenIt(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &fixture{WithT: NewWithT(t), t: t}
				sim, err := apisim.New(nil)
				w.Expect(err).NotTo(HaveOccurred())
				client, err := kubernetes.NewForConfig(sim.Config("controller"))
				w.Expect(err).NotTo(HaveOccurred())
				pods := client.CoreV1().Pods("d")
				_, err = pods.Create(t.Context(), podNamed("a"), metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				_, err = client.CoreV1().ConfigMaps("d").Create(t.Context(), configMapNamed("a"), metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				w.in = informer.For(client.CoreV1().ConfigMaps("d"), nil)
				cached := informer.For(latePods{pods}, nil)

				written := false
				stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(cached)}},
					func(ctx context.Context, _ request) (reconcile.Result, error) {
						if written {
							w.ran("again")
							return nothing, nil
						}
						w.ran("writes")
						written = true
						pod, _ := cached.Get(key("a"))
						return reconcile.After(time.Second), write(ctx, client.CoreV1().Pods, pod)
					})
				pass(4 * time.Second)
				w.Expect(w.reconciled()).To(Equal([]string{"writes"}))
				pass(2 * time.Second)
				w.Expect(w.reconciled()).To(Equal([]string{"again"}))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}
