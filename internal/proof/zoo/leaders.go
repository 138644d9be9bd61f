package zoo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classLeader = "split brain"

func leaders() []Specimen {
	handOver := reconciletest.Options{Rest: 30 * time.Second}
	return []Specimen{
		{
			Name: "works on after the leadership", Class: classLeader, World: pair, Options: handOver, Found: "leader",
			Bug: led(worksOn), Twin: led(drains), SDKTwin: ledSDK,
			Why: "a reconcile's context is the leadership, and leader.Elector.Fence refuses writes outside of it",
		},
		{
			Name: "releases the Lease before its last write", Class: classLeader, World: pair, Options: handOver,
			Found: "leader",
			Bug:   led(releasesEarly), Twin: led(drains), SDKTwin: ledSDK,
			Why: "the Lease is released after every function under it has returned",
		},
	}
}

// term is one term of leadership of a program. The program competes for the
// Lease until elect ends. stop ends when the process must stop. work reconciles
// while the program leads. Its argument ends when the leadership ends.
type term struct {
	elect, stop context.Context //nolint:containedctx // the contexts of the term
	release     context.CancelFunc
	work        func(lead context.Context)
}

// led returns a program that competes for the Lease, works while it holds the
// Lease, and starts again after losing it. configure sets the contexts and the
// work of each term.
func led(configure func(t *term, p *plain)) Program {
	return func(env *reconciletest.Env) error {
		for env.Context().Err() == nil {
			if err := run(env, configure); err != nil {
				return err
			}
		}
		return nil
	}
}

func run(env *reconciletest.Env, configure func(t *term, p *plain)) error {
	p := newPlain(env.Client(), stateless(marksOnce(env.Replica())))
	p.handle(p.apps, p.appHandler())
	p.handle(p.secretCache, p.secretHandler())
	defer p.queue.ShutDown()
	elect, release := context.WithCancel(context.WithoutCancel(env.Context()))
	t := &term{elect: elect, stop: env.Context(), release: release}
	configure(t, p)
	leading, ended, done := make(chan context.Context, 1), make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "apps"}, Client: env.Client().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "r" + strconv.Itoa(env.Replica())},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lead context.Context) { leading <- lead },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go func() {
		defer close(done)
		defer t.release()
		select {
		case lead := <-leading:
			t.work(lead)
		case <-t.stop.Done():
		case <-ended:
		}
	}()
	elector.Run(t.elect)
	close(ended)
	<-done
	return nil
}

// drains reconciles while it holds the Lease, and releases the Lease after the
// last reconcile.
func drains(t *term, p *plain) {
	t.work = func(lead context.Context) { p.serve(t.stop, lead) }
}

// worksOn reconciles until the process stops, even after it has lost the Lease.
func worksOn(t *term, p *plain) {
	t.work = func(context.Context) { p.serve(t.stop, t.stop) }
}

// releasesEarly releases the Lease when the process stops, while a reconcile is
// still in flight.
func releasesEarly(t *term, p *plain) {
	t.elect = t.stop
	t.work = func(lead context.Context) {
		writing, cancel := context.WithCancel(context.WithoutCancel(lead))
		defer cancel()
		defer context.AfterFunc(lead, func() {
			if t.stop.Err() == nil {
				cancel() // the Lease is lost
			}
		})()
		p.serve(lead, writing)
	}
}

// serve reconciles until stop or lead ends. The writes of the reconciles use
// lead as their context.
func (p *plain) serve(stop, lead context.Context) {
	stop, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(lead, cancel)()
	defer p.started.Wait()
	defer p.queue.ShutDown()
	p.watch(stop)
	if cache.WaitForCacheSync(stop.Done(), p.synced...) {
		p.work(lead)
		<-stop.Done()
	}
}

// marksOnce returns a reconcile that records which replica was the first to
// reconcile an App. Its patch has no precondition, so the server does not
// refuse it after another replica has recorded itself.
func marksOnce(replica int) Reconcile {
	note := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":"%d"}}}`, replica)
	return func(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
		if app.Annotations["by"] != "" {
			return nil
		}
		_, err := d.kube().CoreV1().ConfigMaps(app.Namespace).
			Patch(ctx, app.Name, types.MergePatchType, note, metav1.PatchOptions{})
		return err
	}
}

func ledSDK(env *reconciletest.Env) error {
	elector, err := leader.New(leader.Lease{
		Client: env.Client().CoordinationV1(), Namespace: namespace, Name: "apps",
		Identity: "r" + strconv.Itoa(env.Replica()),
	}, nil)
	if err != nil {
		return err
	}
	client := kubernetes.NewForConfigOrDie(elector.Fence(env.Config()))
	return runSDK(env, client, stateless(marksOnce(env.Replica())), elector)
}

// pair returns a case with two replicas.
func pair() *reconciletest.Case {
	c := withSteps(reconciletest.Create(newApp("b")))()
	c.Replicas, c.Goal, c.Ignore = 2, nil, []string{"metadata.annotations.by"}
	return c
}
