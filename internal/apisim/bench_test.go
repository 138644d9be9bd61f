package apisim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

const stepsPerRun = 10_000

// BenchmarkSteps measures the cost of one step of the scheduler: 12 clients
// that patch, 3 informers that watch.
func BenchmarkSteps(b *testing.B) {
	for b.Loop() {
		sim, err := apisim.New(nil)
		if err != nil {
			b.Fatal(err)
		}
		// synctest.Test needs a *testing.T: a bubble of its own per run.
		if !testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{
			Name: "bubble", F: func(t *testing.T) { synctest.Test(t, func(t *testing.T) { benchRun(t, sim) }) },
		}}) {
			b.Fatal("the run failed")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/stepsPerRun, "ns/step")
}

func benchRun(t *testing.T, sim *apisim.Server) {
	sched := sim.Schedule(100)
	for i := range 12 {
		name := fmt.Sprint("n", i)
		if err := sim.Load(configMap(name)); err != nil {
			t.Fatal(err)
		}
		cs := kubernetes.NewForConfigOrDie(sim.Config(name))
		go func() {
			for n := 0; t.Context().Err() == nil; n++ {
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
				_, _ = cs.CoreV1().ConfigMaps("d").Patch(t.Context(), name, types.MergePatchType, patch,
					metav1.PatchOptions{})
			}
		}()
	}
	var factories []informers.SharedInformerFactory
	for i := range 3 {
		f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(sim.Config(fmt.Sprint("w", i))), 0)
		f.Core().V1().ConfigMaps().Informer()
		f.StartWithContext(t.Context())
		factories = append(factories, f)
	}
	sched.Run(apisim.NewRandom(1, apisim.Odds{}), apisim.Limits{Steps: stepsPerRun, Horizon: time.Second})
	t.Cleanup(func() {
		sched.Stop()
		for _, f := range factories {
			f.Shutdown()
		}
	})
}
