//go:build e2e

package informer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// The storage of a real server is replaced by a copy that was made before the last writes.
func TestE2EARestoredServerIsListedAgain(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	data := filepath.Join(t.TempDir(), "data")
	start := func() (*e2e.Cluster, kubernetes.Interface) {
		cluster, err := e2e.Start(ctx, &e2e.Options{DataDir: data, Progress: t.Output()})
		g.Expect(err).NotTo(HaveOccurred())
		return cluster, kubernetes.NewForConfigOrDie(cluster.Config())
	}
	write := func(client kubernetes.Interface, name, value string) {
		maps := client.CoreV1().ConfigMaps("default")
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"suite": "restored"}},
			Data:       map[string]string{"v": value},
		}
		_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
		if err != nil {
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		}
		g.Expect(err).NotTo(HaveOccurred())
	}

	cluster, client := start()
	write(client, "a", "1")
	write(client, "b", "1")
	g.Expect(cluster.Stop()).To(Succeed())
	backup := filepath.Join(t.TempDir(), "backup")
	g.Expect(os.CopyFS(backup, os.DirFS(filepath.Join(data, "etcd")))).To(Succeed())

	cluster, client = start()
	maps := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "suite"})
	defer running(ctx, maps)()
	g.Expect(maps.WaitForSync(ctx)).To(Succeed())
	write(client, "a", "lost")
	for n := range 3000 { // more than the start of a server writes
		write(client, "new", fmt.Sprint(n))
	}
	cached := func() (all []string) {
		for object := range maps.Snapshot().All() {
			all = append(all, object.Name+"="+object.Data["v"])
		}
		return all
	}
	g.Eventually(cached, patience).Should(Equal([]string{"a=lost", "b=1", "new=2999"}))
	g.Expect(cluster.Stop()).To(Succeed())
	g.Expect(os.RemoveAll(filepath.Join(data, "etcd"))).To(Succeed())
	g.Expect(os.CopyFS(filepath.Join(data, "etcd"), os.DirFS(backup))).To(Succeed())

	cluster, client = start()
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	g.Eventually(cached, patience).Should(Equal([]string{"a=1", "b=1"}))
	g.Expect(maps.Status().Restores).To(Equal(int64(1)))
	write(client, "a", "2")
	g.Eventually(cached, patience).Should(Equal([]string{"a=2", "b=1"}))
}
