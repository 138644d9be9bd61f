package apisim_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// TestOurInformerConverges runs our informer through lag, dropped streams, 410
// and failed calls: at rest its store matches the server.
func TestOurInformerConverges(t *testing.T) {
	for seed := range uint64(15) {
		synctest.Test(t, func(t *testing.T) { informerRun(t, seed) })
	}
}

func informerRun(t *testing.T, seed uint64) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	sched := sim.Schedule(0)
	ctx, cancel := context.WithCancel(t.Context())
	cs := kubernetes.NewForConfigOrDie(sim.Config("c"))
	in := informer.For(cs.CoreV1().ConfigMaps(""), nil)
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()

	kubectl := kubernetes.NewForConfigOrDie(sim.Admin())
	rng, writes := rand.New(rand.NewPCG(seed, 2)), 60
	sched.Add(&apisim.Extra{
		Name: "write", Enabled: func() bool { return writes > 0 },
		Do: func() { writes--; randomWrite(ctx, kubectl, rng) },
	})
	policy := apisim.NewRandom(seed, apisim.Odds{
		Drop: 0.1, Bookmark: 0.1, Fault: 0.2, Faults: []apisim.Fault{
			apisim.Internal, apisim.Unreachable,
			apisim.Throttled, apisim.Expired,
		},
		Wait: 0.05, MaxWait: 2 * time.Second,
	})
	sched.Run(policy, apisim.Limits{Steps: 3000, Horizon: time.Minute, Stop: func() bool { return writes == 0 }})
	policy.Calm(true)
	outcome := sched.Run(policy, apisim.Limits{Steps: 3000, Horizon: time.Minute})
	trace := strings.Join(sched.Trace(), "\n")
	g.Expect(outcome).To(gomega.Equal(apisim.Quiescent), trace)
	g.Expect(in.HasSynced()).To(gomega.BeTrue(), trace)

	have, want := map[string]string{}, map[string]string{}
	for cm := range in.Snapshot().All() {
		have[cm.Name] = cm.ResourceVersion
	}
	list, err := kubectl.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, cm := range list.Items {
		want[cm.Name] = cm.ResourceVersion
	}
	g.Expect(have).To(gomega.Equal(want), "seed %d\n%s", seed, trace)
	cancel()
	sched.Stop()
	g.Expect(<-done).To(gomega.Succeed())
}
