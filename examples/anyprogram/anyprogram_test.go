package anyprogram_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat/homeostat/examples/anyprogram/memcached"
	cachev1alpha1 "github.com/homeostat/homeostat/examples/anyprogram/memcached/api/v1alpha1"
	"github.com/homeostat/homeostat/examples/anyprogram/operator"
	"github.com/homeostat/homeostat/examples/anyprogram/plain"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// inTests returns the options of a manager for tests. It may be started more
// than once in a process, opens no ports, logs its errors to the trace, and
// lets the exploration notice cached objects that the program modifies.
func inTests(env *reconciletest.Env) ctrl.Options {
	anyName := true
	return ctrl.Options{
		Logger:     logr.FromContextOrDiscard(env.Context()),
		Cache:      cache.Options{DefaultTransform: env.Transform},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &anyName},
	}
}

// These are parts of findings that operators on controller-runtime usually
// have: they take every 404 of a deletion for done, and their typed caches lose
// a kind if Go cannot decode one object.
const anyNotFound, lostKind = "taken for its deletion", "stops its whole kind"

func TestAnOperatorOnControllerRuntime(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Run:     func(env *reconciletest.Env) error { return operator.Start(env.Context(), env.Config(), inTests(env)) },
		Objects: []runtime.Object{configMap("a")},
		Workload: []reconciletest.Step{
			reconciletest.Create(configMap("b")),
			reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"2"}}`),
			reconciletest.Patch("configmaps", "d/b", `{"metadata":{"labels":{"copy":null}}}`),
			reconciletest.Delete("configmaps", "d/a"),
		},
	}, &reconciletest.Options{Budget: 15 * time.Second, KnownFindings: []string{anyNotFound}})
}

// With the informers of this library, the kit finds in the same operator what it
// finds with those of controller-runtime.
func TestAnOperatorWithTheInformersOfThisLibrary(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Run: func(env *reconciletest.Env) error {
			o := inTests(env)
			o.Cache.NewInformer = clientgo.NewSharedIndexInformer
			return operator.Start(env.Context(), env.Config(), o)
		},
		Objects: []runtime.Object{configMap("a")},
		Workload: []reconciletest.Step{
			reconciletest.Create(configMap("b")),
			reconciletest.Patch("configmaps", "d/a", `{"data":{"x":"2"}}`),
			reconciletest.Patch("configmaps", "d/b", `{"metadata":{"labels":{"copy":null}}}`),
			reconciletest.Delete("configmaps", "d/a"),
		},
	}, &reconciletest.Options{Budget: 15 * time.Second, KnownFindings: []string{anyNotFound}})
}

// sized is a Memcached of a size.
func sized(name string, size int32) *cachev1alpha1.Memcached {
	return &cachev1alpha1.Memcached{
		TypeMeta:   metav1.TypeMeta{APIVersion: cachev1alpha1.GroupVersion.String(), Kind: "Memcached"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
		Spec:       cachev1alpha1.MemcachedSpec{Size: size, ContainerPort: 11211},
	}
}

func TestAnOperatorOfOperatorSDK(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Resources: []metav1.APIResource{{
			Group: cachev1alpha1.GroupVersion.Group, Version: cachev1alpha1.GroupVersion.Version,
			Name: "memcacheds", Kind: "Memcached", Namespaced: true,
		}},
		Run:     func(env *reconciletest.Env) error { return memcached.Start(env.Context(), env.Config(), inTests(env)) },
		Objects: []runtime.Object{sized("a", 1)},
		Workload: []reconciletest.Step{
			reconciletest.Create(sized("b", 2)),
			reconciletest.Patch("memcacheds.cache.example.com", "d/a", `{"spec":{"size":3}}`),
			reconciletest.Delete("memcacheds.cache.example.com", "d/b"),
		},
	}, &reconciletest.Options{Budget: 15 * time.Second, KnownFindings: []string{lostKind}})
}

// twoReplicas is a case in which one replica leads, by a Lease of the simulated
// server and the manager's own code. Its controllers wait for that, or do not.
func twoReplicas(waits bool) *reconciletest.Case {
	return &reconciletest.Case{
		Replicas: 2,
		Run: func(env *reconciletest.Env) error {
			o := inTests(env)
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "copies", "default"
			o.Controller.NeedLeaderElection = &waits
			return operator.Start(env.Context(), env.Config(), o)
		},
		Objects: []runtime.Object{configMap("a")},
		Workload: []reconciletest.Step{
			reconciletest.Create(configMap("b")),
			reconciletest.Delete("configmaps", "d/a"),
		},
		Goal: func(w *reconciletest.World) error {
			leases, err := reconciletest.List[coordinationv1.Lease](w, "leases.coordination.k8s.io")
			if err == nil && (len(leases) != 1 || leases[0].Spec.HolderIdentity == nil || *leases[0].Spec.HolderIdentity == "") {
				err = errors.New("no replica leads")
			}
			return err
		},
	}
}

func TestTwoReplicasOnControllerRuntime(t *testing.T) {
	reconciletest.Explore(t, twoReplicas(true), &reconciletest.Options{Budget: 6 * time.Second, KnownFindings: []string{anyNotFound}})
}

// indexed starts the operator with an index of its cache. The Start of its
// manager waits until the index has synced, and cannot be stopped before.
func indexed(env *reconciletest.Env, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, inTests(env))
	if err != nil {
		return err
	}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	if err := mgr.GetFieldIndexer().IndexField(env.Context(), &corev1.ConfigMap{}, "name", byName); err != nil {
		return err
	}
	if err := (&operator.Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(env.Context())
}

func TestAManagerWithAnIndexIsStopped(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Run:     func(env *reconciletest.Env) error { return indexed(env, env.Config()) },
		Objects: []runtime.Object{configMap("a")},
	}, &reconciletest.Options{Budget: 10 * time.Second, KnownFindings: []string{anyNotFound}})
}

// denied answers every call but discovery with 403.
type denied struct{ http.RoundTripper }

func (d denied) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/api/v1/configmaps") {
		return d.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

func TestCachesThatDoNotSyncAreNamed(t *testing.T) {
	r := reconciletest.Search(t, &reconciletest.Case{
		Run: func(env *reconciletest.Env) error {
			config := env.Config()
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return denied{rt} })
			return indexed(env, config)
		},
		Objects: []runtime.Object{configMap("a")},
	}, nil)
	want := "the caches of controller-runtime's manager do not sync"
	if r.Reason != "never-synced" || !strings.Contains(r.Failure, want) {
		t.Errorf("it fails with %q", r.Failure)
	}
}

// The controllers of this manager do not wait until it leads.
func TestAReplicaThatWritesWithoutLeadingIsFound(t *testing.T) {
	r := reconciletest.Search(t, twoReplicas(false), &reconciletest.Options{Budget: time.Minute})
	if r.Oracle != "leader" {
		t.Errorf("the rule %q is broken: want leader: %s", r.Oracle, r.Failure)
	}
}

func TestAControllerOnClientGo(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Run: func(env *reconciletest.Env) error { return plain.Start(env.Context(), env.Config()) },
		Workload: []reconciletest.Step{
			reconciletest.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e"}}),
			reconciletest.Delete("serviceaccounts", "e/worker"),
		},
	}, &reconciletest.Options{Budget: 10 * time.Second})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Labels: map[string]string{operator.Label: ""}},
		Data:       map[string]string{"x": "1"},
	}
}
