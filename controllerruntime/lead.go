package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	managerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
)

// NewManager returns a manager as controller-runtime's function of the same
// name does, with the leader election and the fence of package leader. It takes
// the options that programs set already:
//
//	mgr, err := controllerruntime.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionID: "shop"})
//
// All clients of the manager are fenced: once the Lease may have expired, they
// refuse to write, with an error that wraps [leader.ErrFenced]; see
// [leader.Elector.Fence]. Controllers and other runnables that need the
// election run under a leadership, whose end ends their context and the
// manager. When the manager stops, the Lease is renewed until they have
// returned. It is then released, or left to expire if the stop has cut off a
// request. The manager's probes name a leadership that has a problem.
//
// With a cache that was made by [NewCache], a standby is warm: EnableWarmup is
// the default of its controllers, and a new leader first waits until its caches
// are as new as the server. If that takes more than two minutes, the manager
// ends with an error. Other caches cannot report how new they are, so
// controller-runtime's default remains: a new leader fills the caches of its
// controllers.
//
// Without options.LeaderElection, NewManager only calls controller-runtime's
// function.
//
// While the replica stands by, the manager's clients cannot write, and the
// manager sends no events. Code that must write in every replica, such as a
// rotation of certificates, needs a client that is made from config itself.
// Labels of the Lease and locks other than Leases are refused. The fence does
// not concern clients that are not made from the manager's config.
//
// NewManager returns the errors of controller-runtime's function, and an error
// for invalid options.
func NewManager(config *rest.Config, options manager.Options) (manager.Manager, error) {
	if config == nil || !options.LeaderElection {
		return manager.New(config, options)
	}
	elector, err := electorOf(config, &options)
	if err != nil {
		return nil, err
	}
	options.LeaderElection = false
	inner, err := manager.New(elector.Fence(config), options)
	if err != nil {
		return nil, err
	}
	m := &led{Manager: inner, elector: elector, elected: make(chan struct{})}
	m.cache, _ = inner.GetCache().(*onDemand)
	if err := errors.Join(
		inner.AddHealthzCheck("leader", func(*http.Request) error { return elector.Healthy() }),
		inner.AddReadyzCheck("leader", func(*http.Request) error { return elector.Ready() }),
		inner.Add(&gated{manager.RunnableFunc(m.lead), m, closed()})); err != nil {
		return nil, err
	}
	return m, nil
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// electorOf returns the elector that a manager's options describe.
func electorOf(config *rest.Config, o *manager.Options) (*leader.Elector, error) {
	check := option.Of("manager.Options")
	check.That(o.LeaderElectionResourceLockInterface == nil, "LeaderElectionResourceLockInterface", option.Set,
		"must be nil: the lock is a Lease of package leader")
	check.That(cmp.Or(o.LeaderElectionResourceLock, resourcelock.LeasesResourceLock) == resourcelock.LeasesResourceLock,
		"LeaderElectionResourceLock", o.LeaderElectionResourceLock, "must be leases")
	check.That(len(o.LeaderElectionLabels) == 0, "LeaderElectionLabels", o.LeaderElectionLabels, "must be empty")
	check.That(o.LeaderElectionID != "", "LeaderElectionID", o.LeaderElectionID, "must be the name of the Lease")
	namespace := cmp.Or(o.LeaderElectionNamespace, ownNamespace())
	check.That(namespace != "", "LeaderElectionNamespace", namespace, "must be set outside of a cluster")
	if err := check.Err(); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	leases, err := leader.Client(rest.AddUserAgent(cmp.Or(o.LeaderElectionConfig, config), "leader-election"))
	if err != nil {
		return nil, err
	}
	return leader.New(leader.Lease{
		Client: leases, Namespace: namespace, Name: o.LeaderElectionID,
		Identity: host + "-" + rand.String(5), // Pods that use the host network share the node's name
	}, &leader.Options{
		LeaseDuration: ptr.Deref(o.LeaseDuration, 0), RenewDeadline: ptr.Deref(o.RenewDeadline, 0),
		RetryPeriod: ptr.Deref(o.RetryPeriod, 0),
	})
}

// ownNamespace returns the namespace of the Pod that runs this program, or "".
func ownNamespace() string {
	text, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(text))
}

// led is a manager whose leader is elected by an elector of package leader.
type led struct {
	manager.Manager

	elector *leader.Elector
	elected chan struct{} // closed when this replica leads and its caches are new enough
	cache   *onDemand     // the manager's cache; nil if NewCache has not made it
}

// Elected returns a channel that is closed when this replica leads and its
// caches are new enough.
func (m *led) Elected() <-chan struct{} { return m.elected }

// GetControllerOptions returns the defaults of the manager's controllers. If
// the manager's cache was made by NewCache, controllers are warmed up by
// default.
func (m *led) GetControllerOptions() managerconfig.Controller {
	o := m.Manager.GetControllerOptions()
	if o.EnableWarmup == nil && m.cache != nil {
		o.EnableWarmup = new(true)
	}
	return o
}

// Add adds a runnable. If the manager would run it only in the leader, it runs
// under the elector's leadership.
func (m *led) Add(r manager.Runnable) error {
	switch runnable := r.(type) {
	case hasCache, webhook.Server: // the manager starts these in every replica
		return m.Manager.Add(r)
	case manager.LeaderElectionRunnable:
		if !runnable.NeedLeaderElection() {
			return m.Manager.Add(r)
		}
	}
	return m.Manager.Add(&gated{r, m, m.elected})
}

// hasCache is implemented by runnables that have a cache, such as a cluster.
// The manager starts them in every replica, together with its own cache.
type hasCache interface{ GetCache() cache.Cache }

// gated is a runnable that runs while the replica leads.
type gated struct {
	manager.Runnable

	manager *led
	ready   <-chan struct{} // the runnable waits until it is closed
}

// NeedLeaderElection returns false, since the elector decides.
func (*gated) NeedLeaderElection() bool { return false }

// Start warms the runnable up, waits until this replica leads, and runs the
// runnable until the leadership ends. The manager is not asked to warm the
// runnable up, because it might do so while the runnable is starting, and one
// of the two calls would then wait for the runnable's lock.
func (g *gated) Start(ctx context.Context) error {
	if warm, ok := g.Runnable.(interface {
		Warmup(ctx context.Context) error
	}); ok {
		if err := warm.Warmup(ctx); err != nil {
			return err
		}
	}
	return g.manager.elector.RunOnce(ctx, func(ctx context.Context) error {
		select {
		case <-g.ready:
			return g.Runnable.Start(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// longestCatchUp is the longest time that a new leader waits for its caches. A
// controller waits as long for its caches to sync.
const longestCatchUp = 2 * time.Minute

// lead lets the other runnables start as soon as the caches are as new as the
// server was when this replica became the leader. The caches then show what the
// previous leader wrote. If the manager's cache was not made by NewCache, the
// other runnables start at once. lead returns nil when the leadership ends. It
// returns an error if the caches are not new enough after longestCatchUp, or if
// the leadership ends before they are.
func (m *led) lead(ctx context.Context) error {
	if m.cache != nil {
		waiting, cancel := context.WithTimeout(ctx, longestCatchUp)
		defer cancel()
		for _, k := range m.cache.all() {
			k.refs.Parts().Renew()
		}
		if err := m.cache.informers.WaitForLatest(waiting); err != nil {
			return fmt.Errorf("waiting for the caches to sync before this replica leads: %w", err)
		}
	}
	close(m.elected)
	<-ctx.Done()
	return nil
}
