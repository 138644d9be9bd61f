// Package ownwrites_test puts the reads of one's own writes of Homeostat beside
// those of controller-runtime, case by case: docs/read-your-writes.md has the
// table.
package ownwrites_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	cr "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
)

// otherSecret is a kind of the same name in another group.
var otherSecret = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Secret"}

// world is a simulated server with ConfigMaps, each of which is a key, and with
// late watches of Secrets.
type world struct {
	t        *testing.T
	server   *apisim.Server
	admin    kubernetes.Interface
	selector string // of the cached Secrets
	late     time.Duration
	leading  bool // works only while it leads
	wrap     func(http.RoundTripper) http.RoundTripper

	mu   sync.Mutex
	gets map[string]int // by path
}

// inWorld calls f in virtual time, with a ConfigMap for each key.
func inWorld(t *testing.T, f func(w *world), keys ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
			{Group: otherSecret.Group, Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if err := server.Load(&corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: key},
			}); err != nil {
				t.Fatal(err)
			}
		}
		f(&world{
			t: t, server: server, admin: kubernetes.NewForConfigOrDie(server.Admin()),
			late: 5 * time.Second, gets: map[string]int{},
		})
	})
}

// config returns the config of a program.
func (w *world) config() *rest.Config {
	config := w.server.Config("program")
	if w.wrap != nil {
		config.Wrap(w.wrap)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(req *http.Request) (*http.Response, error) { return w.pass(next, req) })
	})
	return config
}

func (w *world) secret(name string, labels map[string]string, finalizers ...string) *corev1.Secret {
	w.t.Helper()
	created, err := w.admin.CoreV1().Secrets("d").Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: finalizers},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Error(err)
	}
	return created
}

// writer has the clients of a program. Client is controller-runtime's in both.
type writer struct {
	client.Client

	raw kubernetes.Interface
}

// step is a reconcile of key: it reads the cached Secrets, and may write.
//
// The first comes a second after the caches have synced.
type step func(ctx context.Context, key string, read func() ([]corev1.Secret, error), write writer) error

// program runs step for each key, and again a second after each reconcile,
// until ctx ends.
type program func(ctx context.Context, w *world, do step) error

// later calls do no earlier than a second after the caches have synced.
func later(do step) step {
	first := time.Now().Add(time.Second)
	return func(ctx context.Context, key string, read func() ([]corev1.Secret, error), write writer) error {
		<-time.After(time.Until(first))
		return do(ctx, key, read, write)
	}
}

func runOurs(ctx context.Context, w *world, do step) error {
	do = later(do)
	plain := w.config()
	reached, err := cluster.New(plain, nil)
	if err != nil {
		return err
	}
	write := writer{raw: kubernetes.NewForConfigOrDie(reached.Config())}
	if write.Client, err = client.New(reached.Config(), client.Options{Mapper: mapper()}); err != nil {
		return err
	}
	secrets := informer.For(write.raw.CoreV1().Secrets("d"), &informer.Options{LabelSelector: w.selector})
	o := &reconcile.Options{Workers: 2, Triggers: []reconcile.Trigger{reconcile.Mapped(secrets,
		func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) { return nil, nil })}}
	if w.leading {
		if o.Leader, err = leader.New(leader.Lease{
			Client: kubernetes.NewForConfigOrDie(plain).CoordinationV1(), Namespace: "d", Name: "l", Identity: "me",
		}, nil); err != nil {
			return err
		}
	}
	read := func() ([]corev1.Secret, error) {
		var all []corev1.Secret
		for s := range secrets.Snapshot().All() {
			all = append(all, *s)
		}
		return all, nil
	}
	controller, err := reconcile.New("ours", informer.For(write.raw.CoreV1().ConfigMaps("d"), nil),
		reconcile.Func[*corev1.ConfigMap](func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			return reconcile.After(time.Second), do(ctx, r.Key.Name, read, write)
		}), o)
	if err != nil {
		return err
	}
	return controller.Run(ctx)
}

func runTheirs(ctx context.Context, w *world, do step) error {
	do = later(do)
	config, yes := w.config(), true
	selector, err := labels.Parse(w.selector)
	if err != nil {
		return err
	}
	m, err := manager.New(config, manager.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: w.leading, LeaderElectionNamespace: "d", LeaderElectionID: "l",
		Controller:     crconfig.Controller{SkipNameValidation: &yes, MaxConcurrentReconciles: 2},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil },
		Client:         client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &yes}},
		Cache:          cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: selector}}},
	})
	if err != nil {
		return err
	}
	if _, err := m.GetCache().GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	write := writer{m.GetClient(), kubernetes.NewForConfigOrDie(config)}
	err = builder.ControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(cr.Func(
		func(ctx context.Context, r cr.Request) (cr.Result, error) {
			read := func() ([]corev1.Secret, error) {
				var list corev1.SecretList
				err := m.GetClient().List(ctx, &list, client.InNamespace("d"))
				return list.Items, err
			}
			return cr.Result{RequeueAfter: time.Second}, do(ctx, r.Name, read, write)
		}))
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// mapper replaces discovery.
func mapper() meta.RESTMapper {
	other := meta.NewDefaultRESTMapper(nil)
	other.Add(otherSecret, meta.RESTScopeNamespace)
	return meta.MultiRESTMapper{other, testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)}
}
