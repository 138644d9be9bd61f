//go:build e2e

package loop_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// From exec to the end of a program in its first reconcile, with 100 ConfigMaps
// on a real API server.
func BenchmarkExec(b *testing.B) {
	cluster, err := e2e.Start(b.Context(), &e2e.Options{Progress: b.Output()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	}()
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	for i := range 100 {
		object := configMap(i, 0)
		object.Namespace, object.UID, object.ResourceVersion = "default", "", ""
		if _, err := client.CoreV1().ConfigMaps("default").Create(b.Context(), object, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	for _, rival := range []string{"homeostat", "controller-runtime", "client-go"} {
		program := filepath.Join(dir, rival)
		build := exec.CommandContext(b.Context(), "go", "build", "-o", program, "./exec/"+rival)
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building %s: %v\n%s", rival, err, out)
		}
		b.Run("impl="+rival, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if out, err := exec.CommandContext(b.Context(), program, cluster.Kubeconfig()).CombinedOutput(); err != nil {
					b.Fatalf("running %s: %v\n%s", rival, err, out)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
		})
	}
}
