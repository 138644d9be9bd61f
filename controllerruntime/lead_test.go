package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
)

// replica is a manager with a controller of ConfigMaps.
type replica struct {
	manager.Manager
	*heard

	name string
	stop context.CancelFunc
	done chan error

	mu   sync.Mutex // guards the fields below
	cut  bool       // no request of the replica arrives
	late time.Duration
	then func(ctx context.Context, r *replica) // is called by each reconcile
}

// electing calls test with an API server, in a bubble of virtual time.
func electing(t *testing.T, test func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		defer func() { cancel(); <-time.After(2 * time.Minute) }()
		test(ctx, g, sim, &heard{})
	})
}

// electionOptions are the options of a program's manager.
func electionOptions() manager.Options {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
		NewCache:       controllerruntime.NewCache(&controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}}),
		LeaderElection: true, LeaderElectionID: "lease", LeaderElectionNamespace: "shop",
	}
}

// newReplica returns a replica that does not run.
func newReplica(g *WithT, sim *apisim.Server, events *heard, name string) *replica {
	r := &replica{heard: events, name: name}
	of := sim.Config(name)
	of.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			r.mu.Lock()
			cut, late := r.cut, r.late
			r.mu.Unlock()
			if cut {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			res, err := next.RoundTrip(req)
			if err == nil && late > 0 && req.URL.Query().Get("watch") != "" {
				res.Body = lateBody{res.Body, late}
			}
			return res, err
		})
	})
	var err error
	r.Manager, err = controllerruntime.NewManager(of, electionOptions())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ctrl.NewControllerManagedBy(r).For(&corev1.ConfigMap{}).Complete(r)).To(Succeed())
	return r
}

// Reconcile records the key.
func (r *replica) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	var m corev1.ConfigMap
	err := r.GetClient().Get(ctx, key.NamespacedName, &m)
	r.add(r.name + " reconciles " + key.Name + "=" + m.Data["text"])
	r.mu.Lock()
	then := r.then
	r.mu.Unlock()
	if then != nil {
		then(ctx, r)
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

func (r *replica) start(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	r.done = make(chan error, 1)
	go func() { r.done <- r.Start(ctx) }()
	<-time.After(5 * time.Second)
}

func (r *replica) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// write creates a ConfigMap as the replica.
func (r *replica) write(ctx context.Context, name string) error {
	return r.GetClient().Create(ctx, configMap(name, ""))
}

func configMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string]string{"text": text},
	}
}

func created(ctx context.Context, g *WithT, sim *apisim.Server, m *corev1.ConfigMap) {
	_, err := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("shop").Create(ctx, m, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func holderOf(ctx context.Context, g *WithT, sim *apisim.Server) *coordinationv1.Lease {
	lease, err := kubernetes.NewForConfigOrDie(sim.Admin()).CoordinationV1().Leases("shop").Get(ctx, "lease", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return lease
}

func TestAStandbyIsWarmAndTakesOver(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard) {
		created(ctx, g, sim, configMap("a", "1"))
		first, second := newReplica(g, sim, events, "first"), newReplica(g, sim, events, "second")
		first.start(ctx)
		second.start(ctx)
		g.Expect(events.take()).To(Equal([]string{"first reconciles a=1"}))
		g.Expect(first.Elected()).To(BeClosed())
		g.Expect(second.Elected()).NotTo(BeClosed())
		statuses := controllerruntime.Status(second.GetCache())
		g.Expect(statuses).To(HaveLen(1))
		g.Expect(statuses[0].Objects).To(Equal(1), "the cache of the standby is filled")

		g.Expect(second.write(ctx, "x")).To(MatchError(leader.ErrFenced))
		first.stop()
		g.Expect(<-first.done).To(Succeed())
		<-time.After(5 * time.Second)
		g.Expect(events.take()).To(Equal([]string{"second reconciles a=1"}), "sooner than a Lease expires")
		g.Expect(first.write(ctx, "x")).To(MatchError(leader.ErrFenced))
		g.Expect(second.write(ctx, "x")).To(Succeed())
		second.stop()
		g.Expect(<-second.done).To(Succeed())
		g.Expect(holderOf(ctx, g, sim).Spec.HolderIdentity).To(Or(BeNil(), HaveValue(BeEmpty())))
	})
}

func TestANewLeaderSeesWhatTheLastOneWrote(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard) {
		created(ctx, g, sim, configMap("a", "1"))
		first, second := newReplica(g, sim, events, "first"), newReplica(g, sim, events, "second")
		second.late = 20 * time.Second
		first.start(ctx)
		second.start(ctx)
		<-time.After(time.Minute)
		g.Expect(first.GetClient().Update(ctx, configMap("a", "2"))).To(Succeed())
		<-time.After(time.Second)
		first.stop()
		g.Expect(<-first.done).To(Succeed())
		<-time.After(time.Minute)
		g.Expect(events.take()).To(Equal([]string{
			"first reconciles a=1", "first reconciles a=2", "second reconciles a=2",
		}), "not a=1, which its cache had when it became the leader")
		second.stop()
		g.Expect(<-second.done).To(Succeed())
	})
}

func TestALostLeadershipEndsTheManagerAndItsWrites(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard) {
		created(ctx, g, sim, configMap("a", "1"))
		first, second := newReplica(g, sim, events, "first"), newReplica(g, sim, events, "second")
		inFlight := make(chan error, 1)
		first.then = func(ctx context.Context, r *replica) {
			<-time.After(10 * time.Second)
			r.set(func() { r.cut = true }) // from here on, neither writes nor renewals arrive
			inFlight <- r.write(context.WithoutCancel(ctx), "x")
			r.add(fmt.Sprint("first writes: ", errors.Is(r.write(context.Background(), "x"), leader.ErrFenced)))
		}
		first.start(ctx)
		second.start(ctx)
		<-time.After(5 * time.Second)
		g.Expect(events.take()).To(Equal([]string{"first reconciles a=1"}))
		g.Expect(<-inFlight).To(MatchError(leader.ErrFenced))
		g.Expect(<-first.done).To(MatchError(leader.ErrFenced))
		first.set(func() { first.cut = false })
		<-time.After(20 * time.Second)
		g.Expect(events.take()).To(Equal([]string{"first writes: true", "second reconciles a=1"}))
		second.stop()
		g.Expect(<-second.done).To(Succeed())
	})
}

func TestADrainingManagerKeepsItsLease(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard) {
		created(ctx, g, sim, configMap("a", "1"))
		first := newReplica(g, sim, events, "first")
		first.then = func(ctx context.Context, r *replica) {
			<-ctx.Done()
			<-time.After(25 * time.Second) // longer than a Lease lasts
			r.add(fmt.Sprint("draining: ", r.write(context.WithoutCancel(ctx), "x")))
		}
		first.start(ctx)
		first.stop()
		g.Expect(<-first.done).To(Succeed())
		g.Expect(events.take()).To(Equal([]string{"first reconciles a=1", "draining: <nil>"}))
	})
}

func TestRunnablesThatNeedNoElectionRunInEveryReplica(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, events *heard) {
		first, second := newReplica(g, sim, events, "first"), newReplica(g, sim, events, "second")
		for _, r := range []*replica{first, second} {
			g.Expect(r.Add(everywhere(func() { events.add(r.name + " serves") }))).To(Succeed())
			g.Expect(r.Add(manager.RunnableFunc(func(context.Context) error { events.add(r.name + " works"); return nil }))).To(Succeed())
			r.start(ctx)
		}
		g.Expect(events.take()).To(ConsistOf("first serves", "first works", "second serves"))
		g.Expect(second.Add(manager.RunnableFunc(func(context.Context) error { events.add("added later"); return nil }))).To(Succeed())
		first.stop()
		g.Expect(<-first.done).To(Succeed())
		<-time.After(5 * time.Second)
		g.Expect(events.take()).To(ConsistOf("second works", "added later"))
		second.stop()
		g.Expect(<-second.done).To(Succeed())
	})
}

// everywhere is a runnable of every replica.
type everywhere func()

func (e everywhere) Start(context.Context) error { e(); return nil }
func (everywhere) NeedLeaderElection() bool      { return false }

func TestOptionsThatAnElectorDoesNotHaveAreRefused(t *testing.T) {
	for want, change := range map[string]func(*manager.Options){
		"LeaderElectionID is \"\"":               func(o *manager.Options) { o.LeaderElectionID = "" },
		"LeaderElectionLabels is map[a:b]":       func(o *manager.Options) { o.LeaderElectionLabels = map[string]string{"a": "b"} },
		"LeaderElectionResourceLock is \"maps\"": func(o *manager.Options) { o.LeaderElectionResourceLock = "maps" },
		"leader.Options.LeaseDuration is -1s":    func(o *manager.Options) { o.LeaseDuration = new(-time.Second) },
	} {
		o := electionOptions()
		change(&o)
		_, err := controllerruntime.NewManager(&rest.Config{Host: "http://x"}, o)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
	}
	_, err := controllerruntime.NewManager(nil, electionOptions())
	NewWithT(t).Expect(err).To(MatchError("must specify Config"))
}
