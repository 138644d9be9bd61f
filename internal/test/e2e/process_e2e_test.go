//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// helperVariable makes the test program start a control plane on the data
// directory that it names, and wait.
const helperVariable = "E2E_HELPER_DATA_DIR"

// helper is the process that the specs kill.
func helper(dir string) {
	if _, err := e2e.Start(context.Background(), &e2e.Options{DataDir: dir, Progress: os.Stderr}); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	select {}
}

var _ = Describe("A control plane's processes", func() {
	When("the process that started them is killed", func() {
		It("end", func(ctx SpecContext) {
			dir := filepath.Join(GinkgoT().TempDir(), "data")
			cmd := startHelper(ctx, dir)
			Expect(processes(ctx, dir)).To(HaveLen(4), "supervisor, etcd, API server, controller manager")
			Expect(cmd.Process.Kill()).To(Succeed())
			Expect(cmd.Wait()).To(MatchError("signal: killed"))
			Eventually(ctx, processes).WithArguments(ctx, dir).WithTimeout(slow).Should(BeEmpty())
		})
	})

	When("their supervisor is killed", func() {
		It("end, and the error says so", func(ctx SpecContext) {
			dir := filepath.Join(GinkgoT().TempDir(), "data")
			c, err := e2e.Start(ctx, &e2e.Options{DataDir: dir})
			Expect(err).NotTo(HaveOccurred())
			kill(ctx, dir, "-control")
			Eventually(ctx, processes).WithArguments(ctx, dir).WithTimeout(slow).Should(BeEmpty())
			Expect(c.Restart(ctx)).To(MatchError(ContainSubstring("signal: killed")))
			Expect(c.Stop()).To(MatchError(ContainSubstring("signal: killed")))
		})
	})

	When("one of them ends unasked", func() {
		It("all end, and the error names it", func(ctx SpecContext) {
			dir := filepath.Join(GinkgoT().TempDir(), "data")
			c, err := e2e.Start(ctx, &e2e.Options{DataDir: dir})
			Expect(err).NotTo(HaveOccurred())
			kill(ctx, dir, "kube-controller-manager")
			Eventually(ctx, processes).WithArguments(ctx, dir).WithTimeout(slow).Should(BeEmpty())
			Expect(c.Stop()).To(MatchError(ContainSubstring("kube-controller-manager ended (signal: killed)")))
		})
	})
})

func startHelper(ctx SpecContext, dir string) *exec.Cmd {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	cmd.Stderr = GinkgoWriter
	out, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	line, err := bufio.NewReader(out).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	Expect(line).To(Equal("ready\n"))
	return cmd
}

// processes returns the processes whose command line names the directory, each
// as its id and its command line.
func processes(ctx context.Context, dir string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
		return !strings.Contains(line, dir)
	}), nil
}

// kill ends the one process of the data directory whose command line has the
// word.
func kill(ctx SpecContext, dir, word string) {
	GinkgoHelper()
	all, err := processes(ctx, dir)
	Expect(err).NotTo(HaveOccurred())
	all = slices.DeleteFunc(all, func(line string) bool { return !slices.Contains(strings.Fields(line), word) })
	Expect(all).To(HaveLen(1))
	pid, err := strconv.Atoi(strings.Fields(all[0])[0])
	Expect(err).NotTo(HaveOccurred())
	Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
}
