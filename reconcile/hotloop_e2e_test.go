//go:build e2e

package reconcile_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

// loops is a namespace of a real API server with two clients: ours through
// package cluster, and a client of another program.
type loops struct {
	*WithT
	t            *testing.T
	namespace    string
	ours, theirs kubernetes.Interface
}

func TestE2EATrueFightIsALoopAndAFollowedSourceIsNot(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(server.Stop()).To(Succeed()) }()
	reached, err := cluster.New(server.Config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	w := &loops{ours: kubernetes.NewForConfigOrDie(reached.Config()), theirs: kubernetes.NewForConfigOrDie(server.Config())}
	for name, test := range map[string]func(*loops){"fight": (*loops).fight, "follow": (*loops).follow} {
		t.Run(name, func(t *testing.T) {
			w.WithT, w.t = NewWithT(t), t
			w.namespace, err = server.Namespace(t.Context(), name)
			w.Expect(err).NotTo(HaveOccurred())
			test(w)
		})
	}
}

// run runs a controller until stop is called.
func (w *loops) run(c *reconcile.Controller, err error) (stop func()) {
	w.t.Helper()
	w.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		w.Expect(<-ended).To(Succeed())
	})
}

func (w *loops) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	three := int32(3)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
	}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	d, err := w.theirs.AppsV1().Deployments(w.namespace).Create(w.t.Context(), d, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return d
}

func (w *loops) scale(ctx context.Context, name string) error {
	_, err := w.theirs.AppsV1().Deployments(w.namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"})
	return err
}

// fight: another client sets spec.replicas back at once, and the Deployment's
// controller writes the status all the time.
func (w *loops) fight() {
	deployments := informer.For(w.ours.AppsV1().Deployments(w.namespace), nil)
	var writes atomic.Int64 // to web
	recorded := events.NewFakeRecorder(100)
	c, err := reconcile.New("three", deployments, reconcile.Func[*appsv1.Deployment](
		func(ctx context.Context, r reconcile.Request[*appsv1.Deployment]) (reconcile.Result, error) {
			d, ok := r.Object()
			if !ok {
				return nothing, nil
			}
			if d.Name == "web" && *d.Spec.Replicas != 3 {
				writes.Add(1)
			}
			_, err := patch.Merge(ctx, w.ours.AppsV1().Deployments, d, nil, func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 })
			return nothing, err
		}), &reconcile.Options{Events: recorded})
	defer w.run(c, err)()
	w.deployment("web")
	w.deployment("other")
	began := time.Now()
	ctx, end := context.WithCancel(w.t.Context())
	var rival sync.WaitGroup
	rival.Go(func() {
		for ctx.Err() == nil {
			_ = w.scale(ctx, "web") // it may be cut off at the end
			<-time.After(20 * time.Millisecond)
		}
	})
	defer rival.Wait()
	defer end()
	w.Eventually(func() uint64 { return c.Stats().HotLoops }).WithTimeout(5 * time.Minute).Should(BeNumerically(">=", 3))
	w.Expect(c.Stats().Failing).To(Equal(1), "it is shown")
	w.Expect(recorded.Events).To(Receive(ContainSubstring(`field manager "autoscaler" writes them too`)), "not who writes the status")
	w.Expect(w.scale(ctx, "other")).To(Succeed())
	w.Eventually(func() (int32, error) {
		d, err := w.theirs.AppsV1().Deployments(w.namespace).Get(ctx, "other", metav1.GetOptions{})
		return *d.Spec.Replicas, err
	}).WithTimeout(time.Minute).Should(BeEquivalentTo(3), "it is in no loop")
	minutes := int64(time.Since(began) / time.Minute)
	w.Expect(writes.Load()).To(BeNumerically("<=", 10+minutes))
}

// follow: a source changes each second, and each of its 20 copies with it.
func (w *loops) follow() {
	const copies, seconds = 20, 8
	maps := w.ours.CoreV1().ConfigMaps
	_, err := w.theirs.CoreV1().ConfigMaps(w.namespace).Create(w.t.Context(),
		&configMap{ObjectMeta: metav1.ObjectMeta{Name: "source"}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	in := informer.For(maps(w.namespace), &informer.Options{FieldSelector: "metadata.name=source"})
	all := informer.For(maps(w.namespace), &informer.Options{Name: "copies", LabelSelector: "homeostat.dev/owner-name=source"})
	set := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), maps, all, maps, &children.Options{ByLabel: true})
	c, err := reconcile.New("mirror", in, reconcile.Func[*configMap](
		func(ctx context.Context, r request) (reconcile.Result, error) {
			source, ok := r.Object()
			if !ok {
				return nothing, nil
			}
			var wanted []children.Child[*configMap]
			for n := range copies {
				wanted = append(wanted, children.Child[*configMap]{
					Name: fmt.Sprint("copy-", n), Edit: func(m *configMap) { m.Data = source.Data },
				})
			}
			_, err := set.Ensure(ctx, source, wanted...)
			return nothing, err
		}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(all)}})
	defer w.run(c, err)()
	for n := range seconds {
		_, err := w.theirs.CoreV1().ConfigMaps(w.namespace).Patch(w.t.Context(), "source", types.MergePatchType,
			fmt.Appendf(nil, `{"data":{"v":"%d"}}`, n), metav1.PatchOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		<-time.After(time.Second)
	}
	w.Eventually(func() (current int) {
		for m := range all.Snapshot().All() {
			if m.Data["v"] == strconv.Itoa(seconds-1) {
				current++
			}
		}
		return current
	}).WithTimeout(time.Minute).Should(Equal(copies))
	w.Expect(c.Stats().HotLoops).To(BeZero())
}
