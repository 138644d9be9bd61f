package supervisor_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gleak"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

// long is more than a working supervisor ever needs.
const long = time.Minute

// A running supervisor on fake components.
type running struct {
	*supervisor.Supervisor
	dir    string
	cancel context.CancelCauseFunc
	ready  chan string
	result chan error
	said   *gbytes.Buffer
}

func start(o *supervisor.Options) *running {
	GinkgoHelper()
	r := &running{said: gbytes.NewBuffer(), ready: make(chan string, 1), result: make(chan error, 1)}
	r.dir = filepath.Join(GinkgoT().TempDir(), "data")
	o.DataDir = r.dir
	o.Progress = io.MultiWriter(GinkgoWriter, r.said)
	o.Ready = func(kubeconfig string) { r.ready <- kubeconfig }
	var err error
	r.Supervisor, err = supervisor.New(o)
	Expect(err).NotTo(HaveOccurred())
	var ctx context.Context
	ctx, r.cancel = context.WithCancelCause(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.result <- r.Run(ctx)
	}()
	DeferCleanup(func() {
		r.cancel(nil)
		Eventually(over).WithTimeout(long).Should(BeClosed())
	})
	return r
}

func (r *running) awaitReady() string {
	GinkgoHelper()
	var kubeconfig string
	Eventually(r.ready).WithTimeout(long).Should(Receive(&kubeconfig))
	return kubeconfig
}

// etcd returns the answer of the fake etcd, its process id.
func (r *running) etcd() (string, error) {
	args, err := os.ReadFile(filepath.Join(r.dir, "ports.json"))
	if err != nil {
		return "", err
	}
	port := strings.TrimPrefix(strings.Split(string(args), ",")[0], `{"etcd":`)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://127.0.0.1:" + port)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	return string(body), errors.Join(err, answer.Body.Close())
}

var _ = Describe("Supervisor", func() {
	BeforeEach(func() {
		before := gleak.Goroutines()
		DeferCleanup(func() { Eventually(gleak.Goroutines).WithTimeout(long).ShouldNot(gleak.HaveLeaked(before)) })
	})

	It("refuses options with all their faults", func() {
		_, err := supervisor.New(&supervisor.Options{
			Port: -1, Timeout: -1, Flags: map[string][]string{"kubelet": nil},
		})
		Expect(err).To(MatchError(And(
			ContainSubstring("port -1: must be"), ContainSubstring("timeout -1ns: must be"),
			ContainSubstring(`flags for "kubelet": must be for one of`))))
	})

	It("tells when everything is ready, and ends with its context, and says why", func() {
		r := start(&supervisor.Options{Scheduler: true})
		Expect(r.awaitReady()).To(Equal(filepath.Join(r.dir, "admin.kubeconfig")))
		r.cancel(errors.New("terminated signal received"))
		Eventually(r.result).WithTimeout(long).Should(Receive(BeNil()))
		Expect(r.said).To(gbytes.Say("controlplane: ending: terminated signal received\n"))
		_, err := r.etcd()
		Expect(err).To(MatchError(ContainSubstring("connection refused")))
	})

	It("writes the kubeconfig where it is told to", func() {
		path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		r := start(&supervisor.Options{Kubeconfig: path})
		Expect(r.awaitReady()).To(Equal(path))
		Expect(read("", path)).To(Equal(read(r.dir, "admin.kubeconfig")))
	})

	When("a component ends unasked", func() {
		DescribeTable("ends with its name, status and last words", func(name string) {
			r := start(&supervisor.Options{Flags: map[string][]string{name: {"--exit=3"}}})
			var err error
			Eventually(r.result).WithTimeout(long).Should(Receive(&err))
			var exit *supervisor.ExitError
			Expect(errors.As(err, &exit)).To(BeTrue(), "error: %v", err)
			Expect(*exit).To(Equal(supervisor.ExitError{
				Component: name,
				Status:    "exit status 3",
				Log:       filepath.Join(r.dir, "logs", name+".log"),
				Tail:      "first line\n" + name + " cannot go on",
			}))
		},
			Entry("the first one", supervisor.Etcd),
			Entry("the last one, when all seemed ready", supervisor.ControllerManager),
		)
	})

	When("a component does not become ready", func() {
		It("ends after its timeout, and says what is lacking", func() {
			r := start(&supervisor.Options{
				Timeout: time.Second, Flags: map[string][]string{supervisor.APIServer: {"--unready=true"}},
			})
			var err error
			Eventually(r.result).WithTimeout(long).Should(Receive(&err))
			Expect(err).To(MatchError(And(
				ContainSubstring("waiting for kube-apiserver: not ready within 1s"),
				ContainSubstring("/readyz"))))
		})
	})

	When("the program is not there", func() {
		It("ends with its path", func() {
			r := start(&supervisor.Options{Executable: "/nowhere/controlplane"})
			var err error
			Eventually(r.result).WithTimeout(long).Should(Receive(&err))
			Expect(err).To(MatchError(ContainSubstring("starting etcd: fork/exec /nowhere/controlplane")))
		})
	})

	When("it is asked to kill and to restart", func() {
		It("kills one component and starts it again", func(ctx SpecContext) {
			r := start(&supervisor.Options{})
			r.awaitReady()
			before, err := r.etcd()
			Expect(err).NotTo(HaveOccurred())

			Expect(r.Kill(ctx, supervisor.Etcd)).To(Succeed())
			_, err = r.etcd()
			Expect(err).To(MatchError(ContainSubstring("connection refused")))
			Expect(r.Kill(ctx, supervisor.Etcd)).To(MatchError(
				`killing "etcd": not running; the running components are: kube-apiserver, kube-controller-manager`))

			Expect(r.Restart(ctx)).To(Succeed())
			Expect(r.etcd()).NotTo(Equal(before))
			Expect(r.result).NotTo(Receive())
		})

		It("restarts everything when nothing is down", func(ctx SpecContext) {
			r := start(&supervisor.Options{})
			r.awaitReady()
			before, err := r.etcd()
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Restart(ctx)).To(Succeed())
			Expect(r.etcd()).NotTo(Equal(before))
		})

		It("refuses when it has stopped", func(ctx SpecContext) {
			r := start(&supervisor.Options{})
			r.awaitReady()
			r.cancel(nil)
			Eventually(r.result).WithTimeout(long).Should(Receive(BeNil()))
			Expect(r.Restart(ctx)).To(MatchError(supervisor.ErrStopped))
			Expect(r.Kill(ctx, supervisor.Etcd)).To(MatchError(supervisor.ErrStopped))
		})
	})

	It("carries out the commands that it reads, and answers each with a line", func(ctx SpecContext) {
		r := start(&supervisor.Options{})
		r.awaitReady()
		var out strings.Builder
		in := strings.NewReader("kill kubelet\nkill etcd\nrestart\nwhat is this\n")
		Expect(r.Control(ctx, in, &out)).To(Succeed())
		Expect(strings.Split(out.String(), "\n")).To(HaveExactElements(
			HavePrefix(`error: "killing \"kubelet\": not running`),
			"ok",
			"ok",
			`error: "command \"what is this\": must be \"kill COMPONENT\" or \"restart\""`,
			"",
		))
	})
})

var _ = Describe("The watch for the parent", func() {
	It("ends when the parent changes", func(ctx SpecContext) {
		parents := []int{7, 7, 1}
		supervisor.Until(ctx, 7, func() int {
			first := parents[0]
			parents = parents[1:]
			return first
		})
		Expect(parents).To(BeEmpty())
	}, SpecTimeout(long))

	It("ends with its context", func() {
		ctx, cancel := supervisor.WithParent(GinkgoT().Context())
		Expect(ctx.Err()).NotTo(HaveOccurred())
		cancel(nil)
		Expect(ctx.Err()).To(MatchError(context.Canceled))
	})
})
