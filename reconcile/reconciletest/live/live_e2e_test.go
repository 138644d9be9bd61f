//go:build e2e

package live_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// Smoke depends on the real server's answers: a correct controller passes, one
// that reports ready too early fails, and both leave the server as it was.
func TestE2ESmoke(t *testing.T) {
	g := gomega.NewWithT(t)
	cluster, err := e2e.Start(t.Context(), nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(gomega.Succeed()) })

	report := live.Smoke(t, breeding.Case(breeding.Right), cluster.Config(), nil)
	g.Expect(report.Kills).To(gomega.Equal(4))
	g.Expect(report.Writes).To(gomega.Equal(4))

	short := breeding.Case(breeding.Premature)
	short.Workload = nil
	report, err = live.Try(t, short, cluster.Config(), nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Log(report.Failure)
	g.Expect(report.Oracle).To(gomega.Equal("goal"))

	short = breeding.Case(expose) // the server allots addresses: no two runs have the same
	short.Workload, short.Goal = nil, nil
	report = live.Smoke(t, short, cluster.Config(), nil)
	g.Expect(report.Runs).To(gomega.BeNumerically("<=", 3))
	t.Log(report.Runs, "runs", report.Elapsed)

	var told atomic.Int32
	live.Smoke(t, scripted(func(ctx context.Context, client kubernetes.Interface) {
		if _, err := client.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "smoke-"}, Reason: "Smoke",
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "default"},
		}, metav1.CreateOptions{}); err == nil {
			told.Add(1)
		}
	}), cluster.Config(), nil)
	g.Expect(told.Load()).To(gomega.BeNumerically(">", 1))
	client, err := kubernetes.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Smoke"})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(events.Items).To(gomega.BeEmpty())
}

// expose makes a Service with a name that follows from the parent.
func expose(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	services := b.Client.CoreV1().Services(p.Namespace)
	if all, err := services.List(ctx, metav1.ListOptions{LabelSelector: "of=" + p.Name}); err != nil || len(all.Items) > 0 {
		return err
	}
	made := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Labels: map[string]string{"of": p.Name}, OwnerReferences: breeding.Child(p).OwnerReferences,
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err := services.Create(ctx, made, metav1.CreateOptions{})
	return err
}
