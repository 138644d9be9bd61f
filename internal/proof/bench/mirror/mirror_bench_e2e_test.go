//go:build e2e

// Package mirror_test measures a controller with one key and many outputs,
// beside the same program written with controller-runtime, on a real API
// server.
package mirror_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	copies   = 500
	settles  = 5 * time.Second  // after its start
	rotates  = 60 * time.Second // the source, each second
	repairs  = 40               // isolated
	fights   = 45 * time.Second
	tick     = 10 * time.Millisecond // of processor time in /proc
	patience = 5 * time.Minute
)

// One source and 500 copies: how late they are after a minute of changes,
// isolated repairs, and repairs elsewhere while one tenant rewrites his copy.
func BenchmarkMirror(b *testing.B) {
	c, err := e2e.Start(b.Context(), &e2e.Options{Progress: b.Output()})
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
	s := &stage{b: b, client: kubernetes.NewForConfigOrDie(config), kubeconfig: c.Kubeconfig(), values: map[string]string{}}
	s.namespace("mirror-source")
	s.must(s.client.CoreV1().Secrets("mirror-source").Create(b.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "source"}, StringData: map[string]string{"v": "0"},
	}, metav1.CreateOptions{}))
	for n := range copies {
		s.namespace(tenant(n))
	}
	s.watch()
	for _, p := range []string{"homeostat", "controller-runtime"} {
		file := filepath.Join(b.TempDir(), p)
		build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", file, "./"+p)
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("building %s: %v\n%s", p, err, out)
		}
		b.Run("impl="+p, func(b *testing.B) {
			s.b = b
			for b.Loop() {
				s.measure(file)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func tenant(n int) string { return fmt.Sprintf("mirror-%03d", n) }

// stage is the cluster and its users.
type stage struct {
	b          *testing.B
	client     kubernetes.Interface
	kubeconfig string
	version    int

	mu     sync.Mutex // guards values
	values map[string]string
}

func (s *stage) must(_ any, err error) {
	s.b.Helper()
	if err != nil {
		s.b.Fatal(err)
	}
}

func (s *stage) namespace(name string) {
	s.must(s.client.CoreV1().Namespaces().Create(s.b.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
}

// watch notes the value of each copy.
func (s *stage) watch() {
	in := cache.NewSharedIndexInformer(cache.NewFilteredListWatchFromClient(s.client.CoreV1().RESTClient(), "secrets", "",
		func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=source" }), &corev1.Secret{}, 0, nil)
	note := func(o any) {
		if secret, ok := o.(*corev1.Secret); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.values[secret.Namespace] = string(secret.Data["v"])
		}
	}
	s.must(in.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }}))
	go in.RunWithContext(s.b.Context())
}

// set writes the value of a Secret.
func (s *stage) set(namespace, value string) {
	s.must(s.client.CoreV1().Secrets(namespace).Patch(s.b.Context(), "source", types.MergePatchType,
		fmt.Appendf(nil, `{"stringData":{"v":%q}}`, value), metav1.PatchOptions{}))
}

// await waits until a copy, or all if n is negative, has the value of the
// source, and returns for how long.
func (s *stage) await(n int) time.Duration {
	began := time.Now()
	value := strconv.Itoa(s.version)
	for done := false; !done; {
		if time.Since(began) > patience {
			s.b.Fatalf("not done in %v", patience)
		}
		<-time.After(time.Millisecond)
		done = true
		s.mu.Lock()
		for i := range copies {
			done = done && (n >= 0 && i != n || s.values[tenant(i)] == value)
		}
		s.mu.Unlock()
	}
	return time.Since(began)
}

// repair lets another client edit copies, one after the other, and returns how
// long each was wrong, sorted.
func (s *stage) repair(times int, apart time.Duration) (took []time.Duration) {
	for i := range times {
		n := 1 + i*(copies-1)/times
		s.mu.Lock()
		s.values[tenant(n)] = "" // until the watch has the repair
		s.mu.Unlock()
		s.set(tenant(n), fmt.Sprintf("theirs-%d", i))
		took = append(took, s.await(n))
		<-time.After(apart)
	}
	slices.Sort(took)
	return took
}

func (s *stage) measure(file string) {
	p := s.start(file)
	defer p.kill()
	s.await(-1)
	<-time.After(settles)
	spent := p.processor()
	for range rotates / time.Second { // what counts is how long it takes after the last one
		<-time.After(time.Second)
		s.version++
		s.set("mirror-source", strconv.Itoa(s.version))
	}
	s.report("follow", p, spent, []time.Duration{s.await(-1)})
	spent = p.processor()
	s.report("repair", p, spent, s.repair(repairs, 100*time.Millisecond))

	spent = p.processor()
	fighting, stop := context.WithTimeout(s.b.Context(), fights)
	var tenants sync.WaitGroup
	tenants.Go(func() {
		for i := 0; fighting.Err() == nil; i++ {
			s.set(tenant(0), fmt.Sprintf("mine-%d", i))
			<-time.After(50 * time.Millisecond)
		}
	})
	<-time.After(10 * time.Second)
	took := s.repair(10, time.Second)
	<-fighting.Done()
	stop()
	tenants.Wait()
	s.report("fight", p, spent, took)
}

func (s *stage) report(phase string, p *program, spent time.Duration, took []time.Duration) {
	s.b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, phase+"-median-ms")
	s.b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, phase+"-worst-ms")
	s.b.ReportMetric((p.processor() - spent).Seconds(), phase+"-cpu-s")
}

// program is a running controller.
type program struct {
	b       *testing.B
	process *exec.Cmd
}

func (s *stage) start(file string) *program {
	process := exec.CommandContext(s.b.Context(), file, "--kubeconfig="+s.kubeconfig, fmt.Sprintf("--copies=%d", copies))
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

// processor is the processor time so far.
func (p *program) processor() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.process.Process.Pid))
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
