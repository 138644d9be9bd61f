package reconciletest_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// shared is an exploration that several make together.
func shared(c *reconciletest.Case) (*reconciletest.Case, *reconciletest.Options) {
	c.Workload, c.Goal = nil, nil
	return c, &reconciletest.Options{Budget: breeding.Budget, SkipDrift: true, Seeds: 5}
}

// once makes one Secret, and watches nothing: there is little to explore.
func once() *reconciletest.Case {
	return &reconciletest.Case{
		Objects:   []runtime.Object{breeding.Parent("a")}, // and its namespace
		Unwatched: []string{"secrets"},
		Run: func(env *reconciletest.Env) error {
			ctx, secrets := env.Context(), env.Client().CoreV1().Secrets("d")
			one := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
			for {
				_, err := secrets.Create(ctx, one, metav1.CreateOptions{})
				if err == nil || apierrors.IsAlreadyExists(err) {
					break
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return nil
				}
			}
			<-ctx.Done()
			return nil
		},
	}
}

const shards = 3

// Together the processes try the same runs as a single process, each its own
// share, of singles and of orders alike. The test runs itself as those
// processes.
func TestShardsAreProcessesThatShareTheRuns(t *testing.T) {
	c, o := shared(once())
	plans, report := reconciletest.Tried(t, c, o)
	if report.Failure != "" {
		t.Error(report.Failure)
	}
	isOrder := func(plan string) bool { return strings.HasPrefix(plan, "s") }
	if singles := slices.DeleteFunc(slices.Clone(plans), isOrder); len(singles) != report.Planned {
		t.Errorf("%d single deviations, and the report says %d: %v", len(singles), report.Planned, singles)
	}
	if os.Getenv("RECONCILETEST_SHARD") != "" {
		for _, p := range plans {
			t.Log(mark + p)
		}
		return
	}
	g := gomega.NewWithT(t)
	g.Expect(len(plans)).To(gomega.BeNumerically(">", 10))
	var all []string
	for n := range shards {
		part := processOf(t, n)
		g.Expect(len(part)).To(gomega.BeNumerically("~", len(plans)/shards, shards))
		g.Expect(slices.ContainsFunc(part, isOrder)).To(gomega.BeTrue(), "shard %d has orders: %v", n, part)
		all = append(all, part...)
	}
	slices.Sort(all)
	slices.Sort(plans)
	g.Expect(all).To(gomega.Equal(plans))
}

const mark = "tried: "

// processOf returns the runs that the process of a shard tries.
func processOf(t *testing.T, shard int) []string {
	t.Helper()
	g := gomega.NewWithT(t)
	binary, err := os.Executable()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", "RECONCILETEST_SHARD", shard+1, shards))
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
	var all []string
	for line := range strings.Lines(string(out)) {
		if _, plan, found := strings.Cut(line, mark); found {
			all = append(all, strings.TrimSpace(plan))
		}
	}
	return all
}

// The command that the documents show gives each process a shard of its own.
func TestTheDocumentedCommandDividesTheRuns(t *testing.T) {
	for _, file := range []string{"options.go", "../../docs/testing.md"} {
		g := gomega.NewWithT(t)
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		command := regexp.MustCompile(`(seq .* xargs .*) go test -run `).FindSubmatch(text)
		g.Expect(command).NotTo(gomega.BeNil(), file)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", string(command[1])+" sh -c 'env | grep SHARD='").Output()
		g.Expect(err).NotTo(gomega.HaveOccurred(), file)
		for shard := 1; shard <= 4; shard++ {
			g.Expect(string(out)).To(gomega.ContainSubstring(fmt.Sprintf("%s=%d/4\n", "RECONCILETEST_SHARD", shard)), file)
		}
	}
}

// A finding of a single process is found by one of the shards, under the same
// token.
func TestShardsFindTheSameFailure(t *testing.T) {
	g := gomega.NewWithT(t)
	c, o := shared(breeding.Case(breeding.Premature))
	_, report := reconciletest.Tried(t, c, o)
	g.Expect(report.Token).NotTo(gomega.BeEmpty())
	var tokens []string
	for o.Shard, o.Shards = 0, shards; o.Shard < shards; o.Shard++ {
		_, r := reconciletest.Tried(t, c, o)
		tokens = append(tokens, r.Token)
	}
	g.Expect(tokens).To(gomega.ContainElement(report.Token))
}

func TestShardsAreReadFromTheEnvironment(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "1/4": "", "4/4": "", "0/4": "n/n", "5/4": "n/n", "1": "n/n", "a/b": "n/n", "1/4/5": "n/n",
	} {
		o := reconciletest.Options{}
		err := reconciletest.Share(&o, text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && text != "" && fmt.Sprintf("%d/%d", o.Shard+1, o.Shards) != text {
			t.Errorf("%q: shard %d of %d", text, o.Shard, o.Shards)
		}
	}
	o := reconciletest.Options{Shard: 1, Shards: 2}
	if err := reconciletest.Share(&o, "1/4"); err != nil || o.Shards != 2 {
		t.Errorf("the options come first: %v, %v", o, err)
	}
}
