package live_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// scripted is the case of a program that does something, and then waits for its
// end.
func scripted(do func(ctx context.Context, client kubernetes.Interface)) *reconciletest.Case {
	return &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		do(env.Context(), env.Client())
		<-env.Context().Done()
		return nil
	}}
}

// put makes a ConfigMap in a namespace that the cluster had before, so that it
// is only deleted by name. It reports whether it was new.
func put(ctx context.Context, client kubernetes.Interface, made metav1.ObjectMeta, dryRun ...string) (bool, error) {
	_, err := client.CoreV1().ConfigMaps("default").
		Create(ctx, &corev1.ConfigMap{ObjectMeta: made}, metav1.CreateOptions{DryRun: dryRun})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// late returns a function that delays the answers to writes by d if the body
// contains an object named late.
func late(d time.Duration) func(body string) time.Duration {
	return func(body string) time.Duration {
		if strings.Contains(body, `"late"`) {
			return d
		}
		return 0
	}
}

// smokeIn makes a smoke test that has to pass and to leave nothing behind. slow
// is how late the answers to late writes are.
func smokeIn(t *testing.T, c *reconciletest.Case, slow time.Duration) *reconciletest.Report {
	t.Helper()
	g := gomega.NewWithT(t)
	var w *fixture
	r, err := playedOn(t, func() *fixture {
		w = newFixture(t)
		w.slow = late(slow)
		return w
	}, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(w.objects("configmaps")).To(gomega.BeEmpty())
	return r
}

// A write is in flight when another write kills the program. Its caller gets a
// network error at once, but the server has received the write and answers much
// later. The trial waits for the answer and deletes the object.
func TestSmokeKnowsWhatWasUnderWayAtAKill(t *testing.T) {
	g, waited := gomega.NewWithT(t), time.Duration(0)
	c := &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		ended := make(chan error, 1)
		go func() {
			_, err := put(context.WithoutCancel(env.Context()), env.Client(), named("late"))
			ended <- err
		}()
		<-time.After(time.Second)
		_, _ = put(env.Context(), env.Client(), named("quick"))
		<-env.Context().Done()
		told := time.Now()
		<-ended
		waited += time.Since(told)
		return nil
	}}
	g.Expect(smokeIn(t, c, 20*time.Second).Kills).To(gomega.Equal(1))
	g.Expect(waited).To(gomega.BeZero())
}

// The answer to the last write is lost.
func TestSmokeKillsBeforeTheAnswer(t *testing.T) {
	const writes = 12
	g, seen := gomega.NewWithT(t), 0
	r := smokeIn(t, scripted(func(ctx context.Context, client kubernetes.Interface) {
		for i := range writes {
			if news, _ := put(ctx, client, named("n"+strings.Repeat("x", i))); news {
				seen++
			}
		}
	}), 0)
	g.Expect(r.Kills).To(gomega.Equal(writes))
	g.Expect(seen).To(gomega.Equal(writes), "the writes of the undisturbed run")
}

// A caller need not wait for an answer longer than it wants to.
func TestSmokeLetsACallerGiveUp(t *testing.T) {
	var waited []time.Duration
	smokeIn(t, scripted(func(ctx context.Context, client kubernetes.Interface) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		began := time.Now()
		_, _ = put(ctx, client, named("late"))
		waited = append(waited, time.Since(began))
	}), 20*time.Second)
	gomega.NewWithT(t).Expect(waited).To(gomega.HaveEach(time.Second))
}

// Connections that are open when the program is killed end, even if another
// part of the program holds them.
func TestSmokeEndsWatchesAtAKill(t *testing.T) {
	g, ended := gomega.NewWithT(t), 0
	r := smokeIn(t, &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		seen, err := env.Client().CoreV1().Pods("default").Watch(context.WithoutCancel(env.Context()), metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer seen.Stop()
		_, _ = put(env.Context(), env.Client(), named("n"))
		<-env.Context().Done()
		select {
		case <-seen.ResultChan():
			ended++
		case <-time.After(time.Second): // it was told to stop, and has its network
		}
		return nil
	}}, 0)
	g.Expect(r.Kills).To(gomega.Equal(1))
	g.Expect(ended).To(gomega.Equal(1))
}

// A program that has just started a watch is not at rest.
func TestSmokeWaitsForAProgramThatHasJustBegunToWatch(t *testing.T) {
	r := smokeIn(t, scripted(func(ctx context.Context, client kubernetes.Interface) {
		<-time.After(2 * time.Second)
		seen, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		defer seen.Stop()
		<-time.After(2 * time.Second)
		_, _ = put(ctx, client, named("n"))
	}), 0)
	gomega.NewWithT(t).Expect(r.Kills).To(gomega.Equal(1))
}

// A dry run does not count as a write.
func TestSmokeDoesNotCountDryRuns(t *testing.T) {
	there := breeding.Child(breeding.Parent("a"))
	there.OwnerReferences = nil
	c := scripted(func(ctx context.Context, client kubernetes.Interface) {
		_, _ = put(ctx, client, named("n"), metav1.DryRunAll)
		_ = client.CoreV1().Secrets("d").Delete(ctx, there.Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	})
	c.Objects = []runtime.Object{there}
	r := smokeIn(t, c, 0)
	gomega.NewWithT(t).Expect(r.Kills + r.Writes).To(gomega.BeZero())
}

// The server's name for an object is the one under which it is cleaned up.
func TestSmokeCleansUpWhatTheServerHasNamed(t *testing.T) {
	r := smokeIn(t, scripted(func(ctx context.Context, client kubernetes.Interface) {
		all, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(all.Items) == 0 {
			_, _ = put(ctx, client, metav1.ObjectMeta{GenerateName: "n-"})
		}
	}), 0)
	gomega.NewWithT(t).Expect(r.Kills).To(gomega.Equal(1))
}

// Deletions are writes, too, but not if they find no object.
func TestSmokeKillsAfterDeletions(t *testing.T) {
	one, all := breeding.Child(breeding.Parent("one")), breeding.Child(breeding.Parent("all"))
	one.OwnerReferences, all.OwnerReferences, all.Labels = nil, nil, map[string]string{"all": "yes"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	c := scripted(func(ctx context.Context, client kubernetes.Interface) {
		_ = client.CoreV1().Secrets("d").Delete(ctx, one.Name, metav1.DeleteOptions{})
		_ = client.CoreV1().Secrets("d").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "all"})
		_ = client.CoreV1().Pods("d").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	c.Objects = []runtime.Object{one, all, pod}
	gomega.NewWithT(t).Expect(smokeIn(t, c, 0).Kills).To(gomega.Equal(3))
}

// Each kill restarts the time in which the program has to come to rest.
func TestSmokeHasPatienceWithManyKills(t *testing.T) {
	const writes = 12
	c := scripted(func(ctx context.Context, client kubernetes.Interface) {
		<-time.After(15 * time.Second)
		for i := range writes {
			_, _ = put(ctx, client, named("n"+strings.Repeat("x", i)))
		}
	})
	g := gomega.NewWithT(t)
	r, err := playedOn(t, func() *fixture { return newFixture(t) }, c, &live.Options{Rest: 20 * time.Second})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Kills).To(gomega.Equal(writes))
}

// A write that changes no object does not count, even if a client that Smoke
// does not know has written the object.
func TestSmokeKnowsWhatOthersHaveWritten(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	patch := func(ctx context.Context, client kubernetes.Interface, label string) error {
		_, err := client.CoreV1().ConfigMaps("d").Patch(ctx, "a", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+label+`":"yes"}}}`), metav1.PatchOptions{})
		return err
	}
	c := scripted(func(ctx context.Context, client kubernetes.Interface) { _ = patch(ctx, client, "own") })
	c.Objects = []runtime.Object{breeding.Parent("a")}
	c.Workload = []reconciletest.Step{{Name: "theirs", Do: func(ctx context.Context, _ *reconciletest.World) error {
		defer func() { <-time.After(time.Second) }() // the watches show it
		return patch(ctx, kubernetes.NewForConfigOrDie(w.sim.Admin()), "theirs")
	}}}
	r, err := playedOn(t, func() *fixture { w = newFixture(t); return w }, c, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.BeEmpty())
	g.Expect(r.Kills).To(gomega.Equal(1))
}

// Leftovers that cannot be deleted are an error, although the program is
// correct.
func TestSmokeSaysWhatItCannotCleanUp(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := playedOn(t, func() *fixture {
		w := newFixture(t)
		w.before = func(r *http.Request) *http.Response {
			if r.Method == http.MethodDelete {
				return forbidden(r, "it stays")
			}
			return nil
		}
		return w
	}, scripted(func(ctx context.Context, client kubernetes.Interface) { _, _ = put(ctx, client, named("n")) }), nil)
	g.Expect(err).To(gomega.MatchError("cleaning up after the trial: deleting configmaps default/n: it stays"))
}
