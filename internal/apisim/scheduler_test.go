package apisim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
}

func TestSharedInformerFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		kubectl := kubernetes.NewForConfigOrDie(sim.Admin())
		g.Expect(sim.Load(configMap("a"))).To(gomega.Succeed())
		sched := sim.Schedule(0)

		ctx, cancel := context.WithCancel(t.Context())
		cs := kubernetes.NewForConfigOrDie(sim.Config("c"))
		factory := informers.NewSharedInformerFactory(cs, 0)
		informer := factory.Core().V1().ConfigMaps().Informer()
		factory.StartWithContext(ctx)
		limits := apisim.Limits{Steps: 1000, Horizon: time.Second}
		g.Expect(sched.Run(apisim.Benign{}, limits)).To(gomega.Equal(apisim.Quiescent))
		g.Expect(informer.GetStore().ListKeys()).To(gomega.ConsistOf("d/a"))

		for i := range 10 {
			_, err := kubectl.CoreV1().ConfigMaps("d").Create(ctx, configMap(fmt.Sprint("n", i)),
				metav1.CreateOptions{})
			g.Expect(err).NotTo(gomega.HaveOccurred())
		}
		g.Expect(kubectl.CoreV1().ConfigMaps("d").Delete(ctx, "a", metav1.DeleteOptions{})).To(gomega.Succeed())
		g.Expect(sched.Run(apisim.NewRandom(1, apisim.Odds{Drop: 0.3}), limits)).To(gomega.Equal(apisim.Quiescent))
		g.Expect(informer.GetStore().ListKeys()).To(gomega.HaveLen(10), strings.Join(sched.Trace(), "\n"))

		cancel()
		sched.Stop()
		factory.Shutdown()
	})
}

// counter is a process that adds one to a ConfigMap, n times, with optimistic
// locking.
func counter(ctx context.Context, cs kubernetes.Interface, n int) {
	for range n {
		for ctx.Err() == nil {
			cm, err := cs.CoreV1().ConfigMaps("d").Get(ctx, "count", metav1.GetOptions{})
			if err != nil {
				continue
			}
			if cm.Data == nil {
				cm.Data = map[string]string{}
			}
			cm.Data["n"] += "x"
			_, err = cs.CoreV1().ConfigMaps("d").Update(ctx, cm, metav1.UpdateOptions{})
			if err == nil {
				break
			}
		}
	}
}

// count runs three counters under a seed and returns the trace and how far they
// counted.
func count(t *testing.T, seed uint64, odds apisim.Odds) ([]string, int, int) {
	var trace []string
	var reached, commits int
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(sim.Load(configMap("count"))).To(gomega.Succeed())
		sim.OnCommit(func(apisim.Event) { commits++ })
		sched := sim.Schedule(0)
		for i := range 3 {
			cs := kubernetes.NewForConfigOrDie(sim.Config(fmt.Sprint("c", i)))
			go counter(t.Context(), cs, 5)
		}
		outcome := sched.Run(apisim.NewRandom(seed, odds), apisim.Limits{Steps: 10_000, Horizon: time.Minute})
		g.Expect(outcome).To(gomega.Equal(apisim.Quiescent))
		cm, err := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("d").Get(t.Context(), "count",
			metav1.GetOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		trace, reached = sched.Trace(), len(cm.Data["n"])
		sched.Stop()
	})
	return trace, reached, commits
}

func TestOptimisticLocksCountExactly(t *testing.T) {
	g := gomega.NewWithT(t)
	for seed := range uint64(20) {
		odds := apisim.Odds{Fault: 0.3, Faults: []apisim.Fault{apisim.Internal, apisim.Conflict, apisim.Throttled}}
		_, reached, commits := count(t, seed, odds)
		g.Expect(reached).To(gomega.Equal(15))
		g.Expect(commits).To(gomega.Equal(15))
	}
}

func TestLostRepliesCountTwice(t *testing.T) {
	g := gomega.NewWithT(t)
	_, reached, commits := count(t, 3, apisim.Odds{Fault: 0.3, Faults: []apisim.Fault{apisim.LostReply, apisim.Late}})
	g.Expect(reached).To(gomega.BeNumerically(">", 15))
	g.Expect(commits).To(gomega.Equal(reached))
}

func TestSameSeedSameTrace(t *testing.T) {
	g := gomega.NewWithT(t)
	odds := apisim.Odds{
		Fault: 0.2, Faults: []apisim.Fault{apisim.Internal, apisim.LostReply, apisim.Late},
		Wait: 0.1, MaxWait: time.Second,
	}
	first, _, _ := count(t, 7, odds)
	for range 20 {
		again, _, _ := count(t, 7, odds)
		g.Expect(again).To(gomega.Equal(first))
	}
	other, _, _ := count(t, 8, odds)
	g.Expect(other).NotTo(gomega.Equal(first))
}

func TestFencedIncarnationHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		sched := sim.Schedule(0)
		var crashed []string
		sched.OnCrash(func(client string) { crashed = append(crashed, client) })
		cs := kubernetes.NewForConfigOrDie(sim.Config("c"))
		var errs []error
		go func() {
			for _, name := range []string{"a", "b"} {
				_, err := cs.CoreV1().ConfigMaps("d").Create(t.Context(), configMap(name), metav1.CreateOptions{})
				errs = append(errs, err)
			}
		}()
		sched.Step(sched.Enabled()[0], apisim.CrashAfter)
		g.Expect(sched.Enabled()).To(gomega.BeEmpty())
		g.Expect(errs).To(gomega.HaveEach(gomega.MatchError(context.Canceled)))
		g.Expect(crashed).To(gomega.Equal([]string{"c"}))

		next := kubernetes.NewForConfigOrDie(sim.Config("c"))
		go func() {
			_, err := next.CoreV1().ConfigMaps("d").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			errs = append(errs, err)
		}()
		sched.Step(sched.Enabled()[0], apisim.NoFault)
		g.Expect(sched.Enabled()).To(gomega.BeEmpty())
		g.Expect(apierrors.IsAlreadyExists(errs[2])).To(gomega.BeTrue(), "%v", errs[2])
		cms, err := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("").List(t.Context(),
			metav1.ListOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(cms.Items).To(gomega.HaveLen(1))
	})
}

// Calls that differ only in their selectors are distinguished by them, and not
// by their order of arrival.
func TestCallsOfDifferentSelectorsHaveAnOrder(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			g := gomega.NewWithT(t)
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			sched := sim.Schedule(0)
			maps := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
			var served []string
			for _, selector := range []string{first, strings.Trim("ab", first)} {
				go func() {
					_, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
					g.Expect(err).NotTo(gomega.HaveOccurred())
					served = append(served, selector)
				}()
				synctest.Wait()
			}
			g.Expect(sched.Run(apisim.Benign{}, apisim.Limits{Steps: 10, Horizon: time.Second})).To(gomega.Equal(apisim.Quiescent))
			g.Expect(served).To(gomega.Equal([]string{"a", "b"}))
		})
	}
}

// Work outside the server ends an idle time, too.
func TestWakeEndsAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		sched := sim.Schedule(0)
		began := time.Now()
		time.AfterFunc(time.Second, sched.Wake)
		g.Expect(sched.Idle(time.Minute)).To(gomega.BeTrue())
		g.Expect(time.Since(began)).To(gomega.Equal(time.Second))
	})
}
