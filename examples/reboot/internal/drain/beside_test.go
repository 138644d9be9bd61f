package drain_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

// A budget that its controller has not looked at yet is answered with a time to
// retry, which client-go would sleep for.
func TestABudgetWithoutAStatusKeepsNoOtherPodFromBeingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.pod("first")
		f.pod("second")
		_, err := f.core.PolicyV1().PodDisruptionBudgets("default").Create(f.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "new"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "first"}}},
		}, metav1.CreateOptions{})
		f.Expect(err).NotTo(gomega.HaveOccurred())
		begin := time.Now()
		limited, cancel := context.WithTimeout(f.ctx, 30*time.Second)
		defer cancel()
		pass, err := drain.New(drain.Pods(f.core.CoreV1()), "n1").Pass(limited, true)
		f.Expect(err).NotTo(gomega.HaveOccurred())
		f.Expect(time.Since(begin)).To(gomega.BeNumerically("<", time.Second))
		f.Expect(pass.Refusals()).To(gomega.Equal("Pod default/first: The disruption budget new is still being processed by the server."))
		f.Expect(f.names()).To(gomega.ConsistOf("first"))
		f.Expect(pass.NotAsked()).To(gomega.BeZero(), "a refusal is an answer")
	})
}

func TestEvictionsThatHangRunConcurrentlyAndEndAfterSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		var asked atomic.Int32
		tap := &wiretap.Tap{Before: func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				asked.Add(1)
				<-r.Context().Done()
				return wiretap.Answer(r, http.StatusGatewayTimeout, nil)
			}
			return nil
		}}
		core := kubernetes.NewForConfigOrDie(tap.Config(sim.Admin())).CoreV1()
		var pods []corev1.Pod
		for i := range 100 {
			pods = append(pods, podIn("d", fmt.Sprintf("p%02d", i)))
		}
		limited, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		d := drain.New(scripted{Client: drain.Pods(core), list: listOf(pods...)}, "n1")
		pass, err := d.Pass(limited, true)
		g.Expect(err).To(gomega.HaveOccurred())
		g.Expect(asked.Load()).To(gomega.BeNumerically(">=", 60))
		g.Expect(pass.NotAsked()).To(gomega.Equal(100), "no answer is not known to be a question")
		g.Expect(pass.Left[99].State).To(gomega.Equal(drain.NotAsked))
	})
}

// tolerant is a Pod that may be put on a cordoned node.
func tolerant(name string) corev1.Pod {
	pod := podIn("d", name)
	pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
	return pod
}

func TestPodsThatComeBackToACordonedNodeAreEvictedOnceAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, asked := gomega.NewWithT(t), map[string]int{}
		var mu sync.Mutex // evictions of a pass run at the same time
		client := &scripted{evict: func(e *policyv1.Eviction) error {
			mu.Lock()
			defer mu.Unlock()
			asked[e.Name]++
			return nil
		}}
		d := drain.New(client, "n1")
		pass := func(cordoned bool, pods ...corev1.Pod) drain.Pass {
			client.list = listOf(pods...)
			p, err := d.Pass(t.Context(), cordoned)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			<-time.After(5 * time.Second)
			return p
		}
		g.Expect(pass(true, tolerant("a"), podIn("d", "b")).Returned).To(gomega.BeEmpty())
		again := pass(true, tolerant("a2"), podIn("d", "bound-a-moment-before"))
		g.Expect(again.Returned).To(gomega.ConsistOf("d/a2"))
		g.Expect(left(again)).To(gomega.ConsistOf("d/bound-a-moment-before"))
		<-time.After(time.Minute)
		last := pass(true, tolerant("a3"), podIn("d", "by-name"))
		g.Expect(last.Over()).To(gomega.BeTrue())
		g.Expect(last.Returned).To(gomega.ConsistOf("d/a3", "d/by-name"))
		g.Expect(asked).To(gomega.Equal(map[string]int{"a": 1, "b": 1, "bound-a-moment-before": 1}))
		g.Expect(left(pass(false, podIn("d", "scheduled")))).To(gomega.ConsistOf("d/scheduled"), "whose cordon was lifted")
	})
}

// Not in virtual time, which stands still during a pass.
func TestAPodThatToleratesTheCordonMustLeaveOnce(t *testing.T) {
	g, asked := gomega.NewWithT(t), 0
	client := scripted{list: listOf(tolerant("a")), evict: func(*policyv1.Eviction) error { asked++; return nil }}
	pass, err := drain.New(client, "n1").Pass(t.Context(), true)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(asked).To(gomega.Equal(1))
	g.Expect(pass.Returned).To(gomega.BeEmpty())
	g.Expect(left(pass)).To(gomega.ConsistOf("d/a"))
}
