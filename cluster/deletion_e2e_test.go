//go:build e2e

package cluster_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/patch"
)

// Servers answer a deletion with a Status, with the object as it was, or with
// the object that is being deleted, depending on the kind.
func TestE2EADeletionOfAnyKindIsBelieved(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	checked, err := cluster.New(server.Config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, c := range []kubernetes.Interface{checked.Client(), kubernetes.NewForConfigOrDie(server.Config())} {
		m := metav1.ObjectMeta{Name: "x"}
		account, err := c.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: m}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, c.CoreV1().ServiceAccounts, account, nil)).To(Succeed())
		g.Expect(patch.Delete(ctx, c.CoreV1().ServiceAccounts, account, nil)).To(Succeed(), "it is deleted")
		config, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, c.CoreV1().ConfigMaps, config, nil)).To(Succeed())
		guarded, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "y", Finalizers: []string{"example.com/f"},
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, c.CoreV1().ConfigMaps, guarded, nil)).To(Succeed())
		class, err := c.StorageV1().StorageClasses().Create(ctx,
			&storagev1.StorageClass{ObjectMeta: m, Provisioner: "example.com/p"}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, patch.ClusterScoped(c.StorageV1().StorageClasses()), class, nil)).To(Succeed())
		event, err := c.EventsV1().Events("default").Create(ctx, &eventsv1.Event{
			ObjectMeta: m, EventTime: metav1.NowMicro(), ReportingController: "example.com/c", ReportingInstance: "i",
			Action: "a", Reason: "R", Type: "Normal", Regarding: corev1.ObjectReference{Namespace: "default"},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, c.EventsV1().Events, event, nil)).To(Succeed())
		g.Expect(patch.Delete(ctx, c.EventsV1().Events, event, nil)).To(Succeed(), "it is deleted")
		space, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "z"}},
			metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch.Delete(ctx, patch.ClusterScoped(c.CoreV1().Namespaces()), space, nil)).To(Succeed())
	}
}
