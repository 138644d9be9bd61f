package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// played makes a smoke test in virtual time, and wants no error.
func played(
	t *testing.T, c *reconciletest.Case, o *live.Options, look func(g gomega.Gomega, r *reconciletest.Report),
) {
	t.Helper()
	virtually(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		r, err := live.Try(t, c, newFixture(t).collect(t).config(), o)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		t.Log(r.Failure)
		look(g, r)
	})
}

func TestSmokePassesARightController(t *testing.T) {
	virtually(t, func(t *testing.T) {
		g, w := gomega.NewWithT(t), newFixture(t).collect(t)
		live.Smoke(t, breeding.Case(breeding.Right), w.config(), nil)
		c := breeding.Case(breeding.Right)
		c.Roles = []string{"../testdata/role.yaml"}
		again := live.Smoke(t, c, w.config(), nil)
		g.Expect(again.Runs).To(gomega.Equal(2))
		g.Expect(again.Kills).To(gomega.Equal(4), "two children, two annotations")
		g.Expect(again.Writes).To(gomega.Equal(4))
		g.Expect(again.Rules).To(gomega.HaveLen(2))
		g.Expect(again.Rules[1].Verbs).To(gomega.Equal([]string{"create", "list", "watch"}))
		g.Expect(w.objects("secrets")).To(gomega.BeEmpty())
		g.Expect(w.objects("namespaces")).To(gomega.HaveLen(4), "the one of the case is gone")
	})
}

func TestSmokeFindsWhatTheRoleLacks(t *testing.T) {
	c := breeding.Case(breeding.Right)
	c.Roles = []string{filepath.Join(t.TempDir(), "rbac.yaml")}
	role := `{"kind": "ClusterRole", "metadata": {"name": "least"}, "rules": [{"apiGroups": [""], ` +
		`"resources": ["secrets", "configmaps"], "verbs": ["list", "watch", "create"]}]}`
	gomega.NewWithT(t).Expect(os.WriteFile(c.Roles[0], []byte(role), 0o600)).To(gomega.Succeed())
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("role"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("it may not patch configmaps d/a: add to the rules of ClusterRole least"))
		g.Expect(r.Trace).To(gomega.ContainElement(gomega.HavePrefix("call      create secrets d/a-child")))
	})
}

func TestSmokeFindsWhatAKillLeavesUndone(t *testing.T) {
	c := breeding.Case(breeding.Premature)
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("goal"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("killed after each write (2 kills)"))
		g.Expect(r.Failure).To(gomega.MatchRegexp(`> +2 call      patch configmaps d/a   \(breeding.go:\d+\)   <<< KILLED AFTER`))
		g.Expect(r.Failure).To(gomega.ContainSubstring("hint: the next reconcile must be able to finish half-done work"))
		g.Expect(r.Failure).NotTo(gomega.ContainSubstring("Actors"))
	})
	c.Goal = nil
	c.Actors = []reconciletest.Actor{{
		Name: "nobody", Enabled: func(*reconciletest.World) bool { panic("asked") }, Do: func(*reconciletest.World) {},
	}}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("state"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("- secrets d/a-child = there"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("note: Case.Actors do not act"))
	})
}

func TestSmokeKillsNoMoreThanItIsTold(t *testing.T) {
	played(t, breeding.Case(breeding.Right), &live.Options{Kills: 1}, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(r.Kills).To(gomega.Equal(1))
	})
}

// A program that cleans up only after deletions that it observes passes
// undisturbed, but fails when it is down during one.
func TestSmokeFindsWhatIsMissedWhileDown(t *testing.T) {
	c := breeding.Case(nil)
	c.Goal = nil
	c.Run = breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		orphan := breeding.Child(p)
		orphan.OwnerReferences = nil
		return b.Create(ctx, orphan)
	})
	inner := c.Run
	c.Run = func(env *reconciletest.Env) error {
		go func() {
			seen, err := env.Client().CoreV1().ConfigMaps("d").Watch(env.Context(), metav1.ListOptions{LabelSelector: "parent"})
			for err == nil {
				e, open := <-seen.ResultChan()
				if !open {
					return
				}
				if p, ok := e.Object.(*corev1.ConfigMap); ok && e.Type == "DELETED" {
					_ = env.Client().CoreV1().Secrets("d").Delete(env.Context(), p.Name+"-child", metav1.DeleteOptions{})
				}
			}
		}()
		return inner(env)
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("state"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("+ secrets d/b-child = there"))
	})
}

// A condition that holds at rest may be violated in between.
func TestSmokeHoldsAlwaysAgainstEveryWrite(t *testing.T) {
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["step"] != "" {
			return nil
		}
		if err := b.Annotate(ctx, p, "step", "wrong"); err != nil {
			return err
		}
		return b.Annotate(ctx, p, "step", "right")
	})
	c.Goal, c.Workload = nil, nil
	asked := 0
	c.Always = func(w *reconciletest.World) error {
		asked++
		all, err := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("there are %d ConfigMaps, want 1", len(all))
		}
		if all[0].Annotations["step"] == "wrong" {
			return errors.New("it is wrong for a moment")
		}
		return nil
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("always"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("after update configmaps d/a, by program: it is wrong for a moment"))
		g.Expect(r.Trace[len(r.Trace)-1]).To(gomega.ContainSubstring("call      patch configmaps d/a"))
		g.Expect(asked).To(gomega.Equal(1), "there was one write until then")
	})
}

func TestSmokeWantsARestartToWriteNothing(t *testing.T) {
	c := breeding.Case(breeding.Right)
	boots, inner := 0, c.Run
	c.Run = func(env *reconciletest.Env) error {
		boots++
		_, err := env.Client().CoreV1().ConfigMaps("d").Patch(env.Context(), "a", types.MergePatchType,
			fmt.Appendf(nil, `{"data":{"boots":"%d"}}`, boots), metav1.PatchOptions{})
		return errors.Join(err, inner(env))
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("tail"))
		g.Expect(r.Failure).To(gomega.HavePrefix(
			"on a real server, undisturbed: all was done, and a restart wrote again: patch configmaps d/a"))
		g.Expect(r.Runs).To(gomega.Equal(1))
	})
	boots = 0
	c.Run = func(env *reconciletest.Env) error { // the same write, which changes nothing
		_, err := env.Client().CoreV1().ConfigMaps("d").Patch(env.Context(), "a", types.MergePatchType,
			[]byte(`{"data":{"booted":"yes"}}`), metav1.PatchOptions{})
		return errors.Join(err, inner(env))
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
	})
}

func TestSmokeFindsARunThatEndsOrDoesNot(t *testing.T) {
	c := breeding.Case(breeding.Right)
	c.Run = func(*reconciletest.Env) error { return errors.New("no luck") }
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.ContainSubstring("Run returned although its context had not ended: no luck"))
	})
	const long = time.Hour
	inner := breeding.Run(breeding.Right)
	c.Run = func(env *reconciletest.Env) error {
		err := inner(env)
		if env.Context().Err() != nil {
			<-time.After(long)
		}
		return err
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("stop"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("Run did not return within 2m0s"))
		<-time.After(long) // Run returns only after a long time
	})
}

// Differences between two undisturbed runs do not count; a third run shows
// them.
func TestSmokeLeavesOutWhatDiffersAnyway(t *testing.T) {
	number := 0
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["number"] != "" {
			return nil
		}
		number++
		return b.Annotate(ctx, p, "number", fmt.Sprint(number))
	})
	c.Goal = nil
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(r.Runs).To(gomega.Equal(3))
	})
	c.Ignore = []string{"metadata.annotations.number"}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(r.Runs).To(gomega.Equal(2))
	})
}

// Objects that only one of the undisturbed runs has left behind do not count.
func TestSmokeBelievesEitherUndisturbedRun(t *testing.T) {
	for name, breeds := range map[string]func(run int) bool{
		"the first has more": func(run int) bool { return run == 1 },
		"the third has less": func(run int) bool { return run != 3 },
	} {
		t.Run(name, func(t *testing.T) {
			c := breeding.Case(nil)
			c.Goal, c.Workload = nil, nil
			runs := 0
			c.Outside = func() any { runs++; return nil }
			c.Run = breeding.Run(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
				if breeds(runs) {
					if err := b.Create(ctx, breeding.Child(p)); err != nil {
						return err
					}
				}
				if p.Annotations["run"] != "" {
					return nil
				}
				return b.Annotate(ctx, p, "run", fmt.Sprint(runs))
			})
			played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Runs).To(gomega.Equal(3))
			})
		})
	}
}

// The third run has to be right, too.
func TestSmokeJudgesTheThirdRun(t *testing.T) {
	runs := 0
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["run"] != "" {
			return nil
		}
		return b.Annotate(ctx, p, "run", fmt.Sprint(runs))
	})
	c.Outside = func() any { runs++; return nil }
	c.Goal = func(*reconciletest.World) error {
		if runs == 3 {
			return errors.New("not this time")
		}
		return nil
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.HavePrefix("on a real server, undisturbed: not this time"))
		g.Expect(r.Runs).To(gomega.Equal(3))
	})
}

// Resources that the case does not use do not count.
func TestSmokeComparesWhatWasAskedFor(t *testing.T) {
	g, runs := gomega.NewWithT(t), 0
	var w *fixture
	c := breeding.Case(breeding.Right)
	c.Outside = func() any {
		runs++
		load(t, w, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprint("job-", runs)}})
		return nil
	}
	r, err := playedOn(t, func() *fixture { w = newFixture(t); return w }, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Runs).To(gomega.Equal(2))
}

// A Run that was killed cannot send any further request.
func TestSmokeLetsNothingOutAfterAKill(t *testing.T) {
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["first"] == "" {
			_ = b.Annotate(ctx, p, "first", "done")
			_ = b.Annotate(context.WithoutCancel(ctx), p, "second", "done")
		}
		return nil
	})
	c.Goal, c.Workload = nil, nil
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("state"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("- configmaps d/a: metadata.annotations.second = done"))
	})
}

func TestSmokeLooksIntoCaches(t *testing.T) {
	c := breeding.Case(breeding.Right)
	inner := c.Run
	c.Run = func(env *reconciletest.Env) error {
		ghost := breeding.Child(breeding.Parent("x"))
		env.Cache("secrets", func() []any { return []any{ghost} })
		return inner(env)
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("cache"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("stale cache entry d/x-child"))
	})
	c.Run = func(env *reconciletest.Env) error {
		return errors.Join(inner(env), fmt.Errorf("running: %w", &informer.MutationError{}))
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("mutation"))
	})
}

// State outside the API server survives a kill, and is reset for each run.
func TestSmokeKeepsWhatIsOutside(t *testing.T) {
	c := breeding.Case(breeding.Right)
	c.Outside = func() any { return new(int) }
	inner := c.Run
	c.Run = func(env *reconciletest.Env) error {
		*env.Outside().(*int)++
		return inner(env)
	}
	var boots []int
	c.Goal = func(w *reconciletest.World) error {
		boots = append(boots, *w.Outside().(*int))
		return nil
	}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(boots).To(gomega.Equal([]int{1, 1 + 4 + 3}), "four kills, three steps")
	})
}

// A replica that was killed may leave a Lease behind. The program is not at
// rest while the other replicas wait for the Lease to expire.
func TestSmokeWaitsForTheNextLeader(t *testing.T) {
	c := breeding.Case(nil)
	c.Run, c.Replicas = breeding.Led(true, breeding.Right), 2
	c.Workload = c.Workload[:1]
	c.Goal = nil
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Failure).To(gomega.BeEmpty())
		g.Expect(r.Kills).To(gomega.Equal(4))
	})
}

func TestSmokeSaysWhyThereIsNoRest(t *testing.T) {
	c := breeding.Case(nil)
	c.Run = func(env *reconciletest.Env) error {
		for n := 0; ; n++ {
			select {
			case <-env.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
			_, _ = env.Client().CoreV1().ConfigMaps("d").Patch(env.Context(), "a", types.MergePatchType,
				fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
		}
	}
	c.Goal = nil
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("rest"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("the program has not come to rest within 2m0s: the last write, "))
		g.Expect(r.Failure).To(gomega.ContainSubstring("was update configmaps d/a, by program"))
	})
	virtually(t, func(t *testing.T) { // without a garbage collector
		g := gomega.NewWithT(t)
		c := breeding.Case(breeding.Right)
		c.Workload = []reconciletest.Step{reconciletest.Delete("configmaps", "d/a")}
		r, err := live.Try(t, c, newFixture(t).config(), nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(r.Failure).To(gomega.ContainSubstring("secrets d/a-child is not garbage-collected although its owner is deleted"))
		g.Expect(r.Reason).To(gomega.Equal("no-controllers"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("envtest does not have one"))
		g.Expect(r.Failure).To(gomega.ContainSubstring("and cleaning up: waiting for the deletion of namespaces d:"))
	})
}

func TestSmokeFindsAWorkloadThatFails(t *testing.T) {
	c := breeding.Case(breeding.Right)
	c.Objects = []runtime.Object{breeding.Parent("a"), breeding.Parent("b")}
	played(t, c, nil, func(g gomega.Gomega, r *reconciletest.Report) {
		g.Expect(r.Oracle).To(gomega.Equal("workload"))
		g.Expect(r.Failure).To(gomega.ContainSubstring(`step "create ConfigMap d/b" of the workload: creating ConfigMap d/b`))
	})
}
