//go:build e2e

package references_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
	"github.com/homeostat/homeostat/internal/proof/bench/references/app"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	patience = 10 * time.Minute
	rests    = 30 * time.Second
)

// stage is the API server, its objects, and the programs.
type stage struct {
	*WithT

	b       *testing.B
	cluster *e2e.Cluster
	client  kubernetes.Interface
	apps    *cluster.Kind[*app.App, *app.AppList]
	server  process // kube-apiserver
	folder  string  // of the programs
}

// newStage starts a server without controllers, which would work on what the
// world consists of.
func newStage(b *testing.B) *stage {
	s := &stage{WithT: NewWithT(b), b: b, folder: b.TempDir()}
	var err error
	s.cluster, err = e2e.Start(b.Context(), &e2e.Options{Progress: b.Output(), Flags: []string{
		"kube-apiserver:--service-cluster-ip-range=10.0.0.0/16", "kube-apiserver:--profiling=true",
		"kube-apiserver:--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
	}})
	s.Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { s.Expect(s.cluster.Stop()).To(Succeed()) })
	s.Expect(s.cluster.KillControllerManager()).To(Succeed())
	s.Expect(s.cluster.Apply(b.Context(), app.Manifest)).To(Succeed())
	config := s.cluster.Config()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	s.client = kubernetes.NewForConfigOrDie(config)
	reached, err := cluster.New(s.cluster.Config(), nil)
	s.Expect(err).NotTo(HaveOccurred())
	s.apps, err = cluster.NewKind[*app.App, *app.AppList](reached, app.GroupVersion.WithResource("apps"), app.AddToScheme)
	s.Expect(err).NotTo(HaveOccurred())
	s.server = s.descendant("kube-apiserver")
	for _, p := range []string{"homeostat", "controller-runtime"} {
		build := exec.CommandContext(b.Context(), "go", "build", "-o", filepath.Join(s.folder, p), "./"+p)
		out, err := build.CombinedOutput()
		s.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	return s
}

// descendant returns the process below this one whose first argument is name.
func (s *stage) descendant(name string) process {
	self := strconv.Itoa(os.Getpid())
	folders, err := filepath.Glob("/proc/[0-9]*")
	s.Expect(err).NotTo(HaveOccurred())
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		if arguments := strings.Split(string(line), "\x00"); len(arguments) < 2 || arguments[1] != name {
			continue
		}
		for of := filepath.Base(folder); of != "0" && of != ""; of = parentOf(of) {
			if of == self {
				return process{s, pid}
			}
		}
	}
	s.b.Fatalf("no process below this one is %s", name)
	return process{}
}

func parentOf(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)[1]
}

// each calls do with all numbers below n, as crowd.ForEach does.
func (s *stage) each(n int, do func(ctx context.Context, n int) error) {
	s.Expect(crowd.ForEach(s.b.Context(), n, do)).To(Succeed())
}

func (s *stage) namespaces(n int) {
	s.each(n, func(ctx context.Context, n int) error {
		_, err := s.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(n)}}, metav1.CreateOptions{})
		return err
	})
}

func namespace(n int) string { return fmt.Sprintf("tenant-%03d", n) }

// secrets creates the Secrets from before n, of that many bytes that are equal
// to nothing.
func (s *stage) secrets(before, n, bytes int, where func(n int) (namespace, name string)) {
	s.each(n-before, func(ctx context.Context, n int) error {
		in, name := where(before + n)
		_, err := s.client.CoreV1().Secrets(in).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"v": crowd.Noise(bytes)},
		}, metav1.CreateOptions{})
		return err
	})
}

func (s *stage) app(ctx context.Context, namespace, name string, spec app.Spec) error {
	a := &app.App{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	a.APIVersion, a.Kind = app.GroupVersion.String(), "App"
	_, err := s.apps.In(namespace).Create(ctx, a, metav1.CreateOptions{})
	return err
}

// program is a running operator.
type program struct {
	process

	command *exec.Cmd
	in      io.Writer
	lines   chan string
}

// start starts an operator with flags after its name.
func (s *stage) start(what string) *program {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.Expect(err).NotTo(HaveOccurred())
	address := listener.Addr().String()
	_ = listener.Close() // the program takes it
	arguments := strings.Fields(what)
	command := exec.CommandContext(s.b.Context(), filepath.Join(s.folder, arguments[0]),
		append(arguments[1:], "--kubeconfig="+s.cluster.Kubeconfig(), "--listen-addr="+address)...)
	command.Stderr = s.b.Output()
	in, err := command.StdinPipe()
	s.Expect(err).NotTo(HaveOccurred())
	out, err := command.StdoutPipe()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(command.Start()).To(Succeed())
	p := &program{process: process{s, command.Process.Pid}, command: command, in: in, lines: make(chan string, 100)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// line returns the next line that the program prints.
func (p *program) line() string {
	select {
	case line := <-p.lines:
		return line
	case <-time.After(patience):
		p.of.b.Fatal("the program is silent")
		return ""
	}
}

// measure returns the memory that is in use, in bytes, and the goroutines.
func (p *program) measure() (inUse, goroutines float64) {
	_, err := io.WriteString(p.in, "\n")
	p.of.Expect(err).NotTo(HaveOccurred())
	_, err = fmt.Sscan(p.line(), &inUse, &goroutines)
	p.of.Expect(err).NotTo(HaveOccurred())
	return inUse, goroutines
}

func (p *program) stop() {
	_ = p.command.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = p.command.Wait()
}

// process is a process of this machine.
type process struct {
	of  *stage
	pid int
}

func (p process) resident() float64 { return p.read(crowd.Process.Resident) }

func (p process) peak() float64 { return p.read(crowd.Process.Peak) }

func (p process) read(figure func(p crowd.Process) (float64, error)) float64 {
	value, err := figure(crowd.Process(p.pid))
	p.of.Expect(err).NotTo(HaveOccurred())
	return value
}

// processor is the processor time so far.
func (p process) processor() time.Duration {
	spent, err := crowd.Process(p.pid).Processor()
	p.of.Expect(err).NotTo(HaveOccurred())
	return spent
}

func pause(d time.Duration) { <-time.After(d) }
