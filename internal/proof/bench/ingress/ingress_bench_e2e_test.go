//go:build e2e

// Package ingress_test measures ingress-per-service beside the same program
// written with controller-runtime and with client-go, on a real API server.
package ingress_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	namespaces = 50
	each       = 100 // Services of a namespace
	tampered   = 1000
	users      = 8 // writing at once
	patience   = 5 * time.Minute
	tick       = 10 * time.Millisecond // of processor time in /proc
)

// Time, requests, processor time and peak memory of a program in five phases of
// 5,000 Services.
func BenchmarkIngressPerService(b *testing.B) {
	c, err := e2e.Start(b.Context(), &e2e.Options{Progress: b.Output(), Flags: []string{
		"kube-apiserver:--service-cluster-ip-range=10.0.0.0/16",
		"kube-apiserver:--enable-garbage-collector=false", "kube-controller-manager:--enable-garbage-collector=false",
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			b.Error(err)
		}
	}()
	config := c.Config()
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	s := &stage{b: b, client: kubernetes.NewForConfigOrDie(config), kubeconfig: c.Kubeconfig()}
	s.watch()
	for i := range namespaces {
		_, err := s.client.CoreV1().Namespaces().Create(b.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
	}
	// A new server is slow: it would be so for the first program alone.
	s.users(namespaces*each, s.create)
	s.users(namespaces*each, s.delete)
	for _, p := range []struct{ name, folder, pkg string }{
		{"homeostat", "../../../..", "./examples/ingress-per-service"},
		{"controller-runtime", ".", "./controller-runtime"},
		{"client-go", ".", "./client-go"},
	} {
		file := filepath.Join(b.TempDir(), p.name)
		build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", file, p.pkg)
		build.Dir = p.folder
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building %s: %v\n%s", p.name, err, out)
		}
		b.Run("impl="+p.name, func(b *testing.B) {
			s.b = b
			for b.Loop() {
				s.measure(file)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func namespace(i int) string { return fmt.Sprintf("bench-%02d", i) }

// stage is the cluster and its users.
type stage struct {
	b          *testing.B
	client     kubernetes.Interface
	kubeconfig string
	ingresses  cache.SharedIndexInformer
	wrong      atomic.Int64 // Ingresses that were tampered with
}

// watch counts the Ingresses.
func (s *stage) watch() {
	s.ingresses = cache.NewSharedIndexInformer(cache.NewListWatchFromClient(s.client.NetworkingV1().RESTClient(), "ingresses", "", fields.Everything()),
		&networkingv1.Ingress{}, 0, nil)
	isWrong := func(object any) int64 {
		if i, ok := object.(*networkingv1.Ingress); ok && i.Spec.Rules[0].Host == "tampered.example.com" {
			return 1
		}
		return 0
	}
	if _, err := s.ingresses.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, current any) { s.wrong.Add(isWrong(current) - isWrong(old)) },
	}); err != nil {
		s.b.Fatal(err)
	}
	go s.ingresses.RunWithContext(s.b.Context())
	if !cache.WaitForCacheSync(s.b.Context().Done(), s.ingresses.HasSynced) {
		s.b.Fatal("the Ingresses are not listed")
	}
}

func (s *stage) measure(file string) {
	p := s.start(file)
	defer func() { p.kill() }()
	everything := func() bool { return len(s.ingresses.GetStore().ListKeys()) == namespaces*each }
	s.phase("start", p, namespaces*each, everything, s.create)
	s.phase("noop", p, namespaces*each, everything, func(ctx context.Context, i int) error {
		ns, name := services(i)
		_, err := s.client.CoreV1().Services(ns).Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"example.com/seen":"yes"}}}`), metav1.PatchOptions{})
		return err
	})
	s.wrong.Store(0)
	restored := func() bool { return s.wrong.Load() == 0 && everything() }
	s.phase("tamper", p, tampered, restored, func(ctx context.Context, i int) error {
		ns, name := services(i)
		_, err := s.client.NetworkingV1().Ingresses(ns).Patch(ctx, name, types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/rules/0/host","value":"tampered.example.com"}]`), metav1.PatchOptions{})
		return err
	})
	p.kill()
	began := s.requests()
	p = s.start(file)
	s.report("restart", p, time.Now(), 0, 0, began)
	s.phase("delete", p, namespaces*each, func() bool { return len(s.ingresses.GetStore().ListKeys()) == 0 }, s.delete)
}

func services(i int) (ns, name string) {
	return namespace(i % namespaces), "service-" + strconv.Itoa(i/namespaces)
}

func (s *stage) create(ctx context.Context, i int) error {
	ns, name := services(i)
	_, err := s.client.CoreV1().Services(ns).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"ingress.homeostat.dev/expose": "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name}},
	}, metav1.CreateOptions{})
	return err
}

func (s *stage) delete(ctx context.Context, i int) error {
	ns, name := services(i)
	return s.client.CoreV1().Services(ns).Delete(ctx, name, metav1.DeleteOptions{})
}

// phase lets the users do something n times, and measures until the program has
// followed.
func (s *stage) phase(name string, p *program, n int, done func() bool, do func(ctx context.Context, i int) error) {
	s.b.Helper()
	p.resetPeak()
	began, spent, requests := time.Now(), p.processor(), s.requests()
	s.users(n, do)
	for deadline := time.Now().Add(patience); !done(); pause(tick) {
		if time.Now().After(deadline) {
			s.b.Fatalf("%s: not done in %v", name, patience)
		}
	}
	own := 0
	if name == "tamper" {
		own = n
	}
	s.report(name, p, began, spent, own, requests)
}

// users lets the users do something n times.
func (s *stage) users(n int, do func(ctx context.Context, i int) error) {
	var next atomic.Int64
	var doing sync.WaitGroup
	for range users {
		doing.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(s.b.Context(), i); err != nil {
					s.b.Error(err)
				}
			}
		})
	}
	doing.Wait()
}

// report waits until the program is quiet and reports its costs. own is how
// many of the counted requests are the users'.
func (s *stage) report(phase string, p *program, began time.Time, spent time.Duration, own int, requests float64) {
	took := time.Since(began)
	for busy := true; busy; {
		before := p.processor()
		pause(time.Second)
		busy = p.processor()-before > 2*tick
	}
	s.b.ReportMetric((p.processor() - spent).Seconds(), phase+"-cpu-s")
	if phase != "restart" {
		s.b.ReportMetric(took.Seconds(), phase+"-s")
	}
	s.b.ReportMetric(p.peak(), phase+"-peak-MiB")
	s.b.ReportMetric(s.requests()-requests-float64(own), phase+"-requests")
}

// requests counts those that a program sends about one object, or as a list,
// and that the users do not send: writes of Ingresses, and reads of Services.
func (s *stage) requests() (sum float64) {
	text, err := s.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.b.Context())
	if err != nil {
		s.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		is := func(resource string, verbs ...string) bool {
			for _, verb := range verbs {
				if strings.Contains(line, `resource="`+resource+`"`) && strings.Contains(line, `verb="`+verb+`"`) {
					return true
				}
			}
			return false
		}
		if is("ingresses", "POST", "PUT", "PATCH", "APPLY", "DELETE", "GET", "LIST") || is("services", "GET", "LIST") {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				s.b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// program is a running controller.
type program struct {
	b       *testing.B
	process *exec.Cmd
}

func (s *stage) start(file string) *program {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.b.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // the program takes it
	process := exec.CommandContext(s.b.Context(), file, "--kubeconfig="+s.kubeconfig, "--listen-addr="+address)
	process.Stderr = s.b.Output()
	if err := process.Start(); err != nil {
		s.b.Fatal(err)
	}
	return &program{s.b, process}
}

func (p *program) kill() {
	_ = p.process.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = p.process.Wait()
}

func (p *program) file(name string) string {
	return fmt.Sprintf("/proc/%d/%s", p.process.Process.Pid, name)
}

// processor is the processor time so far.
func (p *program) processor() time.Duration {
	text, err := os.ReadFile(p.file("stat"))
	if err != nil {
		p.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		p.b.Fatal(err)
	}
	return time.Duration(user+system) * tick
}

// resetPeak begins a new peak of the resident memory.
func (p *program) resetPeak() {
	if err := os.WriteFile(p.file("clear_refs"), []byte("5"), 0); err != nil {
		p.b.Log("the peak is that since the start of the process:", err)
	}
}

// peak is the most resident memory, in MiB.
func (p *program) peak() float64 {
	text, err := os.ReadFile(p.file("status"))
	if err != nil {
		p.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		p.b.Fatal(err)
	}
	return kib / 1024
}

func pause(d time.Duration) { <-time.After(d) }
