package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// long is more time than a working server needs.
const long = time.Minute

// script starts a shell script in place of bin/controlplane.
func script(text string) e2e.Server {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "script")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	s, err := e2e.StartServer("/bin/sh", path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = s.Stop() }) // The specs say how it ends.
	return s
}

var _ = Describe("The server's process", func() {
	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() { Eventually(gleak.Goroutines).ShouldNot(gleak.HaveLeaked(before)) })
	})

	It("is an error when the program is not there", func() {
		_, err := e2e.StartServer("/nowhere/controlplane")
		Expect(err).To(MatchError(ContainSubstring("starting /nowhere/controlplane")))
	})

	It("ends with the end of its input", func() {
		s := script(`cat > /dev/null; echo unread; exit 0`)
		Expect(s.Stop()).To(Succeed())
		Expect(s.Stop()).To(Succeed())
	})

	It("answers commands with success or an error", func(ctx SpecContext) {
		s := script(`while read -r line; do
			if [ "$line" = restart ]; then
				echo ok
			else
				printf '%s\n' 'error: "the \"reason\"\nin two lines"'
			fi
		done`)
		Expect(s.Command(ctx, "restart")).To(Succeed())
		Expect(s.Command(ctx, "kill x")).To(MatchError("the \"reason\"\nin two lines"))
		Expect(s.Stop()).To(Succeed())
	}, SpecTimeout(long))

	It("is not understood when it says anything else", func(ctx SpecContext) {
		s := script(`read -r line; echo hello; cat > /dev/null`)
		Expect(s.Command(ctx, "restart")).To(MatchError(ContainSubstring(`reading the answer "hello"`)))
		Expect(s.Stop()).To(Succeed())
	}, SpecTimeout(long))

	It("does not give the answer of one command to another", func(ctx SpecContext) {
		s := script(`read -r first; read -r second; echo ok; echo 'error: "second"'; cat > /dev/null`)
		ended, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		Expect(s.Command(ended, "first")).To(MatchError(context.DeadlineExceeded))
		Expect(s.Command(ctx, "second")).To(MatchError("second"))
		Expect(s.Stop()).To(Succeed())
	}, SpecTimeout(long))

	When("it ends unasked", func() {
		It("returns how it ended, and its last lines, to every caller", func(ctx SpecContext) {
			s := script(`echo "etcd ended" >&2; exit 3`)
			end := And(ContainSubstring("exit status 3"), HaveSuffix("its last lines:\netcd ended"))
			_, err := s.ReadLine(ctx)
			Expect(err).To(MatchError(end))
			Expect(s.Command(ctx, "restart")).To(MatchError(end))
			Expect(s.Stop()).To(MatchError(end))
		}, SpecTimeout(long))

		It("is an error of the start", func(ctx SpecContext) {
			s := script(`echo "port 1 is busy" >&2; exit 1`)
			_, err := e2e.Connect(ctx, s)
			Expect(err).To(MatchError(And(
				HavePrefix("starting the control plane: "), HaveSuffix("port 1 is busy"))))
		}, SpecTimeout(long))
	})

	When("it does not become ready", func() {
		It("is waited for no longer than the context, and the error has its last lines", func(ctx SpecContext) {
			s := script(`echo "etcd is ready" >&2; cat > /dev/null`)
			ended, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			_, err := e2e.Connect(ended, s)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(err).To(MatchError(HaveSuffix("etcd is ready")))
			Expect(s.Stop()).To(Succeed())
		}, SpecTimeout(long))
	})
})
