//go:build e2e

package loop_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/e2e"
)

// From exec to the end of a program in its first turn, with 100 ConfigMaps on a
// real API server. The programs take turns, since a machine changes its pace.
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
	rivals := []string{"homeostat", "controller-runtime", "client-go"}
	dir, took := b.TempDir(), map[string][]time.Duration{}
	for _, rival := range rivals {
		build := exec.CommandContext(b.Context(), "go", "build", "-o", filepath.Join(dir, rival), "./exec/"+rival)
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building %s: %v\n%s", rival, err, out)
		}
	}
	for b.Loop() {
		for _, rival := range rivals {
			program := exec.CommandContext(b.Context(), filepath.Join(dir, rival), cluster.Kubeconfig())
			began := time.Now()
			if out, err := program.CombinedOutput(); err != nil {
				b.Fatalf("running %s: %v\n%s", rival, err, out)
			}
			took[rival] = append(took[rival], time.Since(began))
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, rival := range rivals {
		slices.Sort(took[rival])
		for _, percent := range []int{0, 50} {
			at := took[rival][len(took[rival])*percent/100]
			b.ReportMetric(at.Seconds()*1000, fmt.Sprintf("p%d-ms-%s", percent, rival))
		}
	}
}
