package podruntime_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// period of all controllers under test.
const period = time.Minute

const (
	collection = "/api/v1/namespaces/d/configmaps"
	output     = collection + "/pod-runtime"
	created    = "POST " + collection
	patched    = "PATCH " + output
)

func maker(period time.Duration) stage.Maker {
	return func(env operator.Env) (*reconcile.Controller, error) {
		c, _, err := podruntime.New(env.Cluster.Client(), &podruntime.Options{Period: period, Events: env.Events})
		return c, err
	}
}

// A world has Pods in the namespace d.
type world struct{ *stage.World }

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	stage.Simulate(t, nil, func(w *stage.World) { f(&world{w}) })
}

func (w *world) start() (stop func()) {
	w.T.Helper()
	run := w.Start(maker(period))
	return func() {
		w.T.Helper()
		w.Expect(run.Stop()).To(Succeed())
	}
}

// collect starts a controller, and returns the metrics of its ledgers.
func (w *world) collect() *podruntime.Collector {
	w.T.Helper()
	var totals *podruntime.Collector
	w.Start(func(env operator.Env) (*reconcile.Controller, error) {
		c, collector, err := podruntime.New(env.Cluster.Client(), &podruntime.Options{Events: env.Events})
		totals = collector
		return c, err
	})
	return totals
}

// passes lets time pass, and then waits until everything is at rest.
func (w *world) passes(d time.Duration) {
	w.Pass(d)
	w.Writes()
}

// runs makes a Pod that starts a little later, when the reconciles of its
// creation are over.
func (w *world) runs(name string) {
	w.T.Helper()
	_, err := w.User.CoreV1().Pods("d").Create(w.T.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.Pass(2 * time.Second)
	w.status(name, started(time.Now()))
}

func (w *world) status(name, status string) {
	w.T.Helper()
	_, err := w.User.CoreV1().Pods("d").Patch(w.T.Context(), name, types.MergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	w.Expect(err).NotTo(HaveOccurred())
}

func started(when time.Time) string {
	return fmt.Sprintf(`{"phase":"Running","startTime":%q}`, when.UTC().Format(time.RFC3339))
}

func succeeded(when time.Time) string {
	return fmt.Sprintf(`{"phase":"Succeeded","containerStatuses":[{"name":"c","image":"i","imageID":"","ready":false,`+
		`"restartCount":0,"state":{"terminated":{"exitCode":0,"finishedAt":%q}}}]}`, when.UTC().Format(time.RFC3339))
}

func (w *world) goes(name string) {
	w.T.Helper()
	w.Expect(w.User.CoreV1().Pods("d").Delete(w.T.Context(), name, *metav1.NewDeleteOptions(0))).To(Succeed())
}

func (w *world) configMap() *corev1.ConfigMap {
	w.T.Helper()
	got, err := w.User.CoreV1().ConfigMaps("d").Get(w.T.Context(), podruntime.Name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

func (w *world) ledger() podruntime.Ledger {
	w.T.Helper()
	l, err := podruntime.Parse(w.configMap().Data)
	w.Expect(err).NotTo(HaveOccurred())
	return l
}
