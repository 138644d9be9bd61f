package argorollouts_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/controller/metrics"
	"github.com/argoproj/argo-rollouts/experiments"
	clientset "github.com/argoproj/argo-rollouts/pkg/client/clientset/versioned"
	"github.com/argoproj/argo-rollouts/utils/queue"
	"github.com/argoproj/argo-rollouts/utils/record"
	"github.com/argoproj/argo-rollouts/utils/tolerantinformer"
	"github.com/go-logr/logr"
	log "github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	events "k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// resync is the default of its main.
const resync = 15 * time.Minute

// start runs the Experiment controller, wired as its manager wires it, without
// the metrics port and without events.
func start(env *reconciletest.Env) error {
	log.SetOutput(io.Discard)
	klog.SetLogger(logr.Discard())
	ctx := env.Context()
	argo, err := clientset.NewForConfig(env.Config())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(env.Config())
	if err != nil {
		return err
	}
	builtin := informers.NewSharedInformerFactory(env.Client(), resync)
	custom := dynamicinformer.NewDynamicSharedInformerFactory(client, resync)
	rollouts := workqueue.NewNamedRateLimitingQueue(queue.DefaultArgoRolloutsRateLimiter(), "Rollouts")
	todo := workqueue.NewNamedRateLimitingQueue(queue.DefaultArgoRolloutsRateLimiter(), "Experiments")
	c := experiments.NewController(experiments.ControllerConfig{
		KubeClientSet:                   env.Client(),
		ArgoProjClientset:               argo,
		ReplicaSetInformer:              builtin.Apps().V1().ReplicaSets(),
		ServiceInformer:                 builtin.Core().V1().Services(),
		ExperimentsInformer:             tolerantinformer.NewTolerantExperimentInformer(custom),
		AnalysisRunInformer:             tolerantinformer.NewTolerantAnalysisRunInformer(custom),
		AnalysisTemplateInformer:        tolerantinformer.NewTolerantAnalysisTemplateInformer(custom),
		ClusterAnalysisTemplateInformer: tolerantinformer.NewTolerantClusterAnalysisTemplateInformer(custom),
		ResyncPeriod:                    resync,
		RolloutWorkQueue:                rollouts,
		ExperimentWorkQueue:             todo,
		MetricsServer: metrics.NewMetricsServer(metrics.ServerConfig{
			K8SRequestProvider: &metrics.K8sRequestsCountProvider{},
		}),
		Recorder: silent{},
	})
	builtin.Start(ctx.Done())
	custom.Start(ctx.Done())
	builtin.WaitForCacheSync(ctx.Done())
	custom.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	if ctx.Err() == nil { // its main exits when the caches are not filled
		running.Go(func() { _ = c.Run(ctx, 1) })
	}
	<-ctx.Done()
	for _, q := range []workqueue.RateLimitingInterface{todo, rollouts} {
		q.ShutDownWithDrain()
		q.ShutDown() // client-go's goroutine for delayed keys outlives the former
	}
	running.Wait()
	builtin.Shutdown()
	custom.Shutdown()
	return nil
}

// silent drops events: the recorder of the program has goroutines that end with
// the process only.
type silent struct{}

func (silent) Eventf(runtime.Object, record.EventOptions, string, ...any) {}
func (silent) Warnf(runtime.Object, record.EventOptions, string, ...any)  {}
func (silent) K8sRecorder() events.EventRecorder                          { return &events.FakeRecorder{} }

// definitions are its custom resources, which have no status subresource.
func definitions() apisim.Definitions {
	var all apisim.Definitions
	for _, kind := range []string{"Experiment", "AnalysisRun", "AnalysisTemplate", "ClusterAnalysisTemplate"} {
		all = append(all, apisim.Resource{
			Group: "argoproj.io", Version: "v1alpha1", Kind: kind, Resource: strings.ToLower(kind) + "s",
			Namespaced: kind != "ClusterAnalysisTemplate",
		})
	}
	return all
}

// explored explores a case in a world that runs Pods. Known findings are left
// out, and so are objects that are not created again after others delete them.
func explored(t *testing.T, c *reconciletest.Case, known ...string) *reconciletest.Report {
	t.Helper()
	c.Run, c.Definitions = start, definitions()
	c.Actors = []reconciletest.Actor{actors.Deployments(), actors.Kubelet(nil)}
	return results.Search(t, experiments.NewController, c,
		&reconciletest.Options{Budget: time.Hour, Steps: 500, SkipDrift: true, KnownFindings: known})
}
