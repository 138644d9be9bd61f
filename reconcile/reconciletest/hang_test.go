package reconciletest_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// outside is a channel that no bubble has made.
var outside = make(chan struct{})

// hanging returns programs that cannot work in virtual time.
func hanging() map[string]func(env *reconciletest.Env) error {
	return map[string]func(env *reconciletest.Env) error{
		"socket": func(*reconciletest.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			_, err = l.Accept()
			return err
		},
		"reactor": func(env *reconciletest.Env) error {
			client := &fake.Clientset{}
			client.AddReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				<-env.Context().Done()
				return false, nil, nil
			})
			var join sync.WaitGroup
			for range 2 {
				join.Go(func() { _, _ = client.CoreV1().Pods("d").Get(env.Context(), "p", metav1.GetOptions{}) })
			}
			join.Wait()
			return nil
		},
		"busy": func(env *reconciletest.Env) error {
			for env.Context().Err() == nil {
			}
			return nil
		},
		"channel": func(*reconciletest.Env) error {
			<-outside
			return nil
		},
		"endless": func(*reconciletest.Env) error {
			<-context.Background().Done()
			return nil
		},
	}
}

const (
	hangVariable     = "RECONCILETEST_HANG"
	patienceVariable = "RECONCILETEST_PATIENCE"
)

// The failure of a program that hangs says where it hangs and why. Each program
// runs in its own process, because a hang ends the process.
func TestAHangIsExplained(t *testing.T) {
	if name := os.Getenv(hangVariable); name != "" {
		patience, err := time.ParseDuration(os.Getenv(patienceVariable))
		if err != nil {
			t.Fatal(err)
		}
		reconciletest.Hangs(patience)
		reconciletest.Explore(t, &reconciletest.Case{Run: hanging()[name]}, nil)
		return
	}
	for name, want := range map[string]string{
		"socket":  `at hang_test.go:\d+, waits for a socket`,
		"reactor": `at hang_test.go:\d+, waits for a lock .* Reactors of a fake clientset`,
		"busy":    `at hang_test.go:\d+, waits for nothing: it computes`,
		"channel": `at hang_test.go:\d+, waits for a channel that was made outside of this run`,
		"endless": `Run did not return within 2m0s \(virtual\)`,
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			var said []byte
			for _, patience := range []string{"400ms", "4s", "30s"} { // on a busy machine it takes long to get there
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAHangIsExplained$")
				cmd.Env = append(os.Environ(), hangVariable+"="+name, patienceVariable+"="+patience)
				var err error
				said, err = cmd.CombinedOutput()
				g.Expect(err).To(gomega.HaveOccurred())
				if regexp.MustCompile(want).Match(said) {
					g.Expect(string(said)).To(gomega.MatchRegexp(`replay: rt1:[0-9a-f]{8}:`))
					return
				}
			}
			t.Errorf("it does not say %q, but:\n%s", want, said)
		})
	}
}
