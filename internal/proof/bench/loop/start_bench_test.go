package loop_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	cr "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

// programs make their clients, run one controller of ConfigMaps, and call
// changed in the first reconcile.
var programs = []struct {
	name string
	run  func(ctx context.Context, c *rest.Config, turned func()) error
}{
	{"homeostat", runOurs},
	{"controller-runtime", runRuntime},
	{"client-go", runRaw},
}

func runOurs(ctx context.Context, c *rest.Config, turned func()) error {
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	return reconcile.Run(ctx, "bench", informer.For(client.CoreV1().ConfigMaps(""), nil), reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			turned()
			return reconcile.Result{}, nil
		}))
}

func runRuntime(ctx context.Context, c *rest.Config, turned func()) error {
	skip := true
	m, err := manager.New(c, manager.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { // instead of discovery
			return testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme), nil
		},
	})
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(cr.Func(
		func(context.Context, cr.Request) (cr.Result, error) {
			turned()
			return cr.Result{}, nil
		}))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

func runRaw(ctx context.Context, c *rest.Config, turned func()) error {
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(client, 0)
	shared := factory.Core().V1().ConfigMaps().Informer()
	_, err = shared.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if k, err := toolscache.MetaNamespaceKeyFunc(object); err == nil {
			q.Add(k)
		}
	}})
	if err != nil {
		return err
	}
	defer factory.Shutdown()
	factory.StartWithContext(ctx)
	toolscache.WaitForCacheSync(ctx.Done(), shared.HasSynced)
	var running sync.WaitGroup
	defer running.Wait()
	defer q.ShutDown()
	running.Go(func() {
		for {
			k, shutdown := q.Get()
			if shutdown {
				return
			}
			turned()
			q.Done(k)
		}
	})
	<-ctx.Done()
	return nil
}

// The time from a rest.Config to the first reconcile, with 100 objects on a
// server that answers at once: the waits of the libraries themselves.
func BenchmarkStart(b *testing.B) {
	for _, program := range programs {
		b.Run("impl="+program.name, func(b *testing.B) {
			var took time.Duration
			rounds := 0
			for b.Loop() {
				server, err := apisim.New(nil)
				if err != nil {
					b.Fatal(err)
				}
				for i := range 100 {
					if err := server.Load(configMap(i, 0)); err != nil {
						b.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(b.Context())
				first, ended := make(chan struct{}), make(chan error, 1)
				once := sync.OnceFunc(func() { close(first) })
				began := time.Now()
				go func() { ended <- program.run(ctx, server.Config("bench"), once) }()
				select {
				case <-first:
				case err := <-ended:
					b.Fatal(err)
				}
				took += time.Since(began)
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()*1000/float64(rounds), "ms/start")
		})
	}
}
