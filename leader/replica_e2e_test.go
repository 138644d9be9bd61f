//go:build e2e

package leader_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/leader"
)

// These variables make the test program a replica.
const (
	replicaVariable   = "LEADER_REPLICA"
	namespaceVariable = "LEADER_NAMESPACE"
	serverVariable    = "LEADER_SERVER"   // instead of the kubeconfig's
	unfencedVariable  = "LEADER_UNFENCED" // to see that the test can fail
	shardsVariable    = "LEADER_SHARDS"
	configVariable    = "KUBECONFIG"
)

const (
	replicaLease = 3 * time.Second
	deafTries    = 100
)

func TestMain(m *testing.M) {
	if name := os.Getenv(replicaVariable); name != "" {
		if err := replica(context.Background(), name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // the end of a replica, which has no other main
		}
		return
	}
	m.Run()
}

// replica leads and writes all the time. It ignores the end of its leadership
// for a while.
func replica(ctx context.Context, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(configVariable))
	if err != nil {
		return err
	}
	config.QPS = -1
	if server := os.Getenv(serverVariable); server != "" {
		config = &rest.Config{Host: server, QPS: -1}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := os.Getenv(namespaceVariable)
	if os.Getenv(shardsVariable) != "" {
		return shardReplicaMain(ctx, config, client, namespace, name)
	}
	elector, err := leader.New(leader.Lease{
		Client: client.CoordinationV1(), Namespace: namespace, Name: "test", Identity: name,
	}, &leader.Options{LeaseDuration: replicaLease})
	if err != nil {
		return err
	}
	if os.Getenv(unfencedVariable) == "" {
		config = elector.Fence(config)
	}
	fenced, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error { return scribble(ctx, fenced, namespace, name) })
}

func scribble(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	fmt.Fprintln(os.Stdout, "leading")
	deaf := context.WithoutCancel(ctx)
	body := []byte(fmt.Sprintf(`{"data":{"writer":%q}}`, name))
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	refused, tries := 0, 0
	for n := 0; tries < deafTries; n++ {
		over := ctx.Err() != nil
		if over {
			tries++
		}
		body = fmt.Appendf(body[:0], `{"data":{"writer":%q,"n":"%d"}}`, name, n)
		_, err := client.CoreV1().ConfigMaps(namespace).Patch(deaf, "paper", types.MergePatchType, body, metav1.PatchOptions{})
		if over && errors.Is(err, leader.ErrFenced) {
			refused++
		}
		<-pace.C
	}
	fmt.Fprintf(os.Stdout, "over: %s, refused %d of %d\n", causeOf(ctx), refused, tries)
	return nil
}

// process is a replica as a process of its own.
type process struct {
	name  string
	cmd   *exec.Cmd
	lines chan string
}

func startReplica(t *testing.T, name, kubeconfig, namespace string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), replicaVariable+"="+name, configVariable+"="+kubeconfig,
		namespaceVariable+"="+namespace), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(cmd.Start()).To(Succeed())
	p := &process{name: name, cmd: cmd, lines: make(chan string, 1000)}
	go p.read(out)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range p.lines { // until the pipe is closed
		}
		_ = cmd.Wait()
	})
	return p
}

func (p *process) read(out io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		p.lines <- s.Text()
	}
}

// says waits for a line that begins like this.
func (p *process) says(t *testing.T, prefix string) string {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("replica %s ended before it said %q", p.name, prefix)
			}
			t.Logf("%s: %s", p.name, line)
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-patience:
			t.Fatalf("replica %s did not say %q within a minute", p.name, prefix)
		}
	}
}
