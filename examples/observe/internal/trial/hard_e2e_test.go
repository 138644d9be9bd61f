//go:build e2e

package trial_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parallel calls f for the numbers below n, by several goroutines.
func parallel(n int, f func(i int)) {
	const users = 16
	var running sync.WaitGroup
	for u := range users {
		running.Go(func() {
			defer GinkgoRecover()
			for i := u; i < n; i += users {
				f(i)
			}
		})
	}
	running.Wait()
}

// configMaps creates n ConfigMaps with a label.
func configMaps(ctx context.Context, namespace, label string, n int) {
	parallel(n, func(i int) {
		_, err := user.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%05d", i), Labels: map[string]string{label: "yes"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	})
}

// asFirst starts observe as the first process of a PID namespace of its own.
func asFirst(args ...string) *gexec.Session {
	GinkgoHelper()
	c := command(cluster.Kubeconfig(), binary, append([]string{"--listen-addr="}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	session, err := gexec.Start(c, GinkgoWriter, GinkgoWriter)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
		Skip("the kernel refuses a PID namespace: " + err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(patience) })
	return session
}

var _ = Describe("As PID 1", func() {
	It("counts 400 commands that fail as 400, though each leaves orphans", func(ctx SpecContext) {
		ns := namespace(ctx)
		configMaps(ctx, ns, "many", 400)
		s := asFirst("configmaps", "-n", ns, "-l", "many", "--once", "--workers=8", "--maximum-errors=-1", "--print-metrics-on-exit",
			"--", "sh", "-c", "(:) & (:) & exit 3")
		Eventually(s, patience).Should(gexec.Exit(2))
		Expect(logs(s)).To(ContainSubstring("summary: 400 keys, 400 runs, 400 failures, 0 retries, 0 deletions"))
		Expect(out(s)).To(ContainSubstring(`observe_exec_durations_milliseconds_count{exit_code="3",type="Sync"} 400`))
	}, SpecTimeout(3*time.Minute))

	It("passes SIGTERM on, and ends as the program does", func() {
		s := asFirst("namespaces", "--grace-period=100ms", "--", "sh", "-c", "echo begun $$; sleep 1000")
		Eventually(s.Out, patience).Should(gbytesSay("begun"))
		Expect(out(s)).NotTo(ContainSubstring("begun 1\n"))
		s.Terminate()
		Eventually(s, patience).Should(gexec.Exit(0))
	})

	It("waits for orphans, so that none stays a zombie", func() {
		s := asFirst("namespaces", "--field-selector=metadata.name=default",
			"--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & :") // which is killed when its parent has ended
		Eventually(s.Out, patience).Should(gbytesSay("Sync ended"))
		Eventually(func() []string { return zombiesOf(s.Command.Process.Pid) }, patience).Should(BeEmpty())
	})

	It("ends with the code of the program", func() {
		Eventually(asFirst("serivces"), patience).Should(gexec.Exit(1))
	})
})

// zombiesOf returns the children of a process that have ended and that it has
// not waited for.
func zombiesOf(parent int) (zombies []string) {
	GinkgoHelper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	Expect(err).NotTo(HaveOccurred())
	for _, file := range all {
		stat, _ := os.ReadFile(file) // it may have ended
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, fmt.Sprintf("Z %d ", parent)) {
			zombies = append(zombies, string(stat))
		}
	}
	return zombies
}

// pidFrom waits for a process id in a file.
func pidFrom(file string) int {
	GinkgoHelper()
	var id int
	Eventually(func() error {
		text, err := os.ReadFile(file)
		if err == nil {
			id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	}, patience).Should(Succeed())
	return id
}

// alive reports whether a process exists and is not a zombie.
func alive(id int) func() bool {
	return func() bool {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id)); err == nil {
			if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "Z") {
				return false
			}
		}
		return syscall.Kill(id, 0) == nil
	}
}

var _ = Describe("The end of the process", func() {
	It("lets a command finish that needs less than the grace period", func() {
		s := observe("namespaces", "-q", "--", "sh", "-c", "echo begun; sleep 0.5; echo finished")
		Eventually(s.Out, patience).Should(gbytesSay("begun"))
		s.Terminate()
		Eventually(s, patience).Should(gexec.Exit(0))
		Expect(out(s)).To(Equal("begun\nfinished\n"), "and no more intake")
	})

	It("ends the process group of a command that needs longer, and exits 0", func() {
		pid := filepath.Join(GinkgoT().TempDir(), "pid")
		s := observe("namespaces", "--grace-period=100ms", "--", "sh", "-c", `sleep 1000 & echo $! >"$0"; wait`, pid)
		grandchild := pidFrom(pid)
		s.Terminate()
		Eventually(s, patience).Should(gexec.Exit(0))
		Eventually(alive(grandchild), patience).Should(BeFalse())
		Expect(logs(s)).To(ContainSubstring("0 failures"))
	})

	It("ends at once after a second signal, and its commands with it", func() {
		pid := filepath.Join(GinkgoT().TempDir(), "pid")
		s := observe("namespaces", "--grace-period=1h", "--", "sh", "-c", `trap "" TERM; echo $$ >"$0"; while :; do sleep 0.1; done`, pid)
		child := pidFrom(pid)
		Eventually(func() int { return s.Terminate().ExitCode() }, patience, 100*time.Millisecond).Should(Equal(128 + int(syscall.SIGTERM)))
		Eventually(alive(child), patience).Should(BeFalse())
	})

	It("takes its commands with it when it is killed", func() {
		pid := filepath.Join(GinkgoT().TempDir(), "pid")
		s := observe("namespaces", "--", "sh", "-c", `echo $$ >"$0"; while :; do sleep 0.1; done`, pid)
		child := pidFrom(pid)
		s.Kill()
		Eventually(s, patience).Should(gexec.Exit())
		Eventually(alive(child), patience).Should(BeFalse())
	})

	It("takes --names with it, too", func() {
		pid := filepath.Join(GinkgoT().TempDir(), "pid")
		s := observe("namespaces", "--delete=true", "--names=sh", "--names=-c",
			`--names=echo $$ >"$0"; while :; do sleep 0.1; done`, "--names="+pid)
		child := pidFrom(pid)
		s.Kill()
		Eventually(s, patience).Should(gexec.Exit())
		Eventually(alive(child), patience).Should(BeFalse())
	})
})

var _ = Describe("Large and many", func() {
	It("passes an object of 1 MB by stdin, and says so where it cannot", func(ctx SpecContext) {
		ns := namespace(ctx)
		big := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}}
		big.Data = map[string]string{"data": strings.Repeat("x", 1_000_000)}
		_, err := user.CoreV1().ConfigMaps(ns).Create(ctx, big, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		selected := []string{"configmaps", "-n", ns, "--field-selector=metadata.name=big", "--once"}

		s := observed(0, append(selected, "--stdin", "--", "sh", "-c", "wc -c")...)
		Expect(out(s)).To(MatchRegexp(`(?m)^\s*1000\d\d\d$`))
		s = observed(2, append(selected, "--object-env-var=OBJECT", "--", "true")...)
		Expect(logs(s)).To(MatchRegexp(`big: variable OBJECT has 1000\d\d\d bytes, larger than the kernel accepts .*--stdin`))
		s = observed(2, append(selected, "--template", "{.data.data}", "--", "true")...)
		Expect(logs(s)).To(ContainSubstring("the argument is longer than 131072 bytes"))
	}, SpecTimeout(2*time.Minute))

	It("passes on 10 MB of output", func() {
		var size bytes.Buffer
		c := command(cluster.Kubeconfig(), binary, "services", "--once", "-q", "--",
			"sh", "-c", "head -c 10485760 /dev/zero | tr '\\0' x")
		c.Stdout = &size
		Expect(c.Run()).To(Succeed())
		Expect(size.Len()).To(Equal(10<<20 + 1))
	})

	It("sees each of 10,000 Services once", func(ctx SpecContext) {
		const many = 10_000
		ns := namespace(ctx)
		parallel(many, func(i int) {
			_, err := user.CoreV1().Services(ns).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%05d", i)},
				Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		})
		var lines, complaints bytes.Buffer
		c := command(cluster.Kubeconfig(), binary, "services", "-n", ns, "--once", "--workers=4", "--template", "{.spec.clusterIP}")
		c.Stdout, c.Stderr = &lines, &complaints
		Expect(c.Run()).To(Succeed())
		Expect(complaints.String()).To(ContainSubstring("10000 keys, 10000 runs, 0 failures"))
		Expect(strings.Count(lines.String(), ns+" s-")).To(Equal(many))
		Expect(strings.Count(lines.String(), " None\n")).To(Equal(many))
	}, SpecTimeout(5*time.Minute))

	It("lets namespaces take turns", func(ctx SpecContext) {
		large, small := namespace(ctx), namespace(ctx)
		configMaps(ctx, large, "shared", 100)
		configMaps(ctx, small, "shared", 3)
		s := observed(0, "configmaps", "-A", "-l", "shared", "--once", "--workers=1", "-q", "--", "echo")
		lines := strings.Split(strings.TrimSpace(out(s)), "\n")
		Expect(lines).To(HaveLen(103))
		Expect(lines[:7]).To(ContainElements(HavePrefix(small+" c-00000"), HavePrefix(small+" c-00001"), HavePrefix(small+" c-00002")))
	}, SpecTimeout(2*time.Minute))
})
