//go:build unix

package operator_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/operator"
)

// --kubeconfig=<(…) of a shell is the pipe /dev/fd/N. Reading it again would
// find nothing, and opening a named pipe would wait for a writer.
func TestAKubeconfigThatIsAPipeIsReadOnce(t *testing.T) {
	for _, how := range []string{"pipe", "named pipe"} {
		t.Run(how, func(t *testing.T) {
			g := NewWithT(t)
			server := newGatekeeper(t, "a")
			text := server.kubeconfig("token: a")
			var file string
			if how == "pipe" {
				in, out, err := os.Pipe()
				g.Expect(err).NotTo(HaveOccurred())
				t.Cleanup(func() { _ = in.Close() })
				_, err = io.WriteString(out, text)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(out.Close()).To(Succeed())
				file = fmt.Sprintf("/dev/fd/%d", in.Fd())
			} else {
				file = filepath.Join(t.TempDir(), "config")
				g.Expect(syscall.Mkfifo(file, 0o600)).To(Succeed())
				go func() { _ = os.WriteFile(file, []byte(text), 0o600) }() // waits for a reader
			}
			config, err := operator.Config(file)
			g.Expect(err).NotTo(HaveOccurred())
			clients := asks(g, config)
			server.admits("b")
			end := time.Now().Add(1500 * time.Millisecond) // a refusal lets the file be read again after a second
			g.Eventually(func() bool {
				for client, ask := range clients {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					g.Expect(ask(ctx)).To(Satisfy(apierrors.IsUnauthorized), client+": it waits for no file")
					cancel()
				}
				return time.Now().After(end)
			}, patience).Should(BeTrue())
			server.admits("a")
			for client, ask := range clients {
				g.Expect(ask(t.Context())).To(Succeed(), client+": the first credentials are kept")
			}
		})
	}
}
