//go:build e2e

package size_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	services = 300
	restFor  = 30 * time.Second // after the last Ingress
	patience = 2 * time.Minute
)

// Resident memory of ingress-per-service and its twin, with 300 Services and
// their Ingresses on a real API server, when nothing has happened for a while.
func BenchmarkAtRest(b *testing.B) {
	cluster, err := e2e.Start(b.Context(), &e2e.Options{
		Progress: b.Output(), Flags: []string{"kube-apiserver:--service-cluster-ip-range=10.0.0.0/16"},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	}()
	config := cluster.Config()
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)
	create(b, client)
	for _, p := range programs[2:] {
		file := build(b, p.folder, p.pkg)
		b.Run(p.name, func(b *testing.B) {
			var used []float64
			for b.Loop() {
				used = append(used, atRest(b, client, file, cluster.Kubeconfig()))
			}
			sum := 0.0
			for _, u := range used {
				sum += u
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(sum/float64(len(used)), "MiB")
		})
	}
}

func create(b *testing.B, client kubernetes.Interface) {
	b.Helper()
	for i := range services {
		_, err := client.CoreV1().Services("default").Create(b.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: "service-" + strconv.Itoa(i), Labels: map[string]string{"ingress.homeostat.dev/expose": "true"},
			},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// atRest runs a program until every Service has its Ingress and a while longer,
// and returns its resident memory in MiB.
func atRest(b *testing.B, client kubernetes.Interface, file, kubeconfig string) float64 {
	b.Helper()
	ingresses := client.NetworkingV1().Ingresses("default")
	if err := ingresses.DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	arguments := []string{"--kubeconfig=" + kubeconfig, "--listen-addr=" + freeAddress(b)}
	if strings.Contains(b.Name(), "controller-runtime") {
		arguments = append(arguments, "--probe-addr="+freeAddress(b))
	}
	program := exec.CommandContext(b.Context(), file, arguments...)
	program.Stderr = b.Output()
	if err := program.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = program.Process.Signal(syscall.SIGTERM)
		_ = program.Wait()
	}()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for made := 0; made < services; {
		list, err := ingresses.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		made = len(list.Items)
		wait(ctx, time.Second)
	}
	wait(ctx, restFor)
	return resident(b, program.Process.Pid)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// resident reads the resident memory of a process from /proc, in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("the process has no VmRSS")
	return 0
}

func freeAddress(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
