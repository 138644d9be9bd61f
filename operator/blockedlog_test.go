package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// pipe is a standard error that takes no line while it is blocked.
type pipe struct {
	mu      sync.Mutex // guards the fields below
	blocked chan struct{}
	text    strings.Builder
}

func (p *pipe) Write(line []byte) (int, error) {
	p.mu.Lock()
	blocked := p.blocked
	p.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(line)
}

// block blocks the pipe until unblock is called.
func (p *pipe) block() (unblock func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	blocked := make(chan struct{})
	p.blocked = blocked
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.blocked = nil
		close(blocked)
	}
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// The runtime of the container reads the log no more. Keys fail, which is
// logged, and there are more of them than workers.
func TestALogThatCannotBeWrittenStopsNoWork(t *testing.T) {
	g := NewWithT(t)
	defer http.DefaultClient.CloseIdleConnections()
	s := newFixture()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	reconciled := make(chan string, 1000)
	p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		in := informer.For(env.Cluster.Client().CoreV1().ConfigMaps(""), nil)
		c, err := reconcile.New("c", in, reconcile.Func[*corev1.ConfigMap](func(
			_ context.Context, r reconcile.Request[*corev1.ConfigMap],
		) (reconcile.Result, error) {
			reconciled <- r.Key.Name
			switch {
			case r.Key.Name == "odd":
				return reconcile.Result{}, errors.New("this is something else")
			case strings.HasPrefix(r.Key.Name, "failing"):
				return reconcile.Result{}, errors.New("it fails")
			}
			return reconcile.Result{}, nil
		}), env.Options())
		return []*reconcile.Controller{c}, err
	}}
	create := func(name string) {
		_, err := kubernetes.NewForConfigOrDie(s.Admin()).CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	create("first")
	address, code, stderr := freeAddress(g), make(chan int, 1), &pipe{}
	args := []string{
		"--kubeconfig=" + kubeconfigOf(t, server.URL), "--listen-addr=" + address, "--leader-elect", "--leader-elect-identity=me",
	}
	go func() { code <- p.Main(args, stderr) }()
	g.Eventually(reconciled, patience).Should(Receive(Equal("first")))

	unblock := stderr.block()
	for n := range 8 {
		create(fmt.Sprint("failing-", n))
	}
	g.Eventually(answer(address, "/readyz?verbose"), patience).Should(And(
		HavePrefix("200 "), ContainSubstring("[!] log: standard error takes no line")))
	create("healthy")
	g.Eventually(reconciled, patience).Should(Receive(Equal("healthy")))
	unblock()
	create("odd")
	g.Eventually(stderr.String, patience).Should(ContainSubstring("lines were lost, because standard error took no line"))
	g.Expect(answer(address, "/readyz?verbose")()).NotTo(ContainSubstring("standard error"))

	defer stderr.block()()
	g.Expect(terminate()).To(Succeed())
	g.Eventually(code, patience).Should(Receive(BeZero()))
}
