// Package actors has the controllers that most programs depend on, for the
// worlds of package reconciletest: kubelets that run Pods, and the controllers
// of Deployments and ReplicaSets.
//
//	case.Actors = []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()}
//
// They write as other clients, so the program is not blamed for their writes.
// In some runs, one of their acts is a minute late.
//
// Concurrency: an actor serves one case at a time; make a new one for each case
// that runs in parallel.
package actors

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/deployments"
)

// Deployments returns an actor that does the work of the controllers of
// Deployments and ReplicaSets. It creates ReplicaSets and Pods with owner
// references, scales them, and rolls out a new template with maxSurge and
// maxUnavailable or by recreating. It reports the status of both kinds with
// observedGeneration and conditions. The Pods stay Pending unless another
// actor, such as [Kubelet], runs them.
//
// An old ReplicaSet is deleted when the rollout is over. There are no
// revisions, because their number would depend on how often the actor ran. The
// actor does not adopt ReplicaSets or Pods, and ignores
// progressDeadlineSeconds.
//
// Each write is a separate act. The exploration may delay it by a minute.
func Deployments() reconciletest.Actor {
	return (&routine{look: deployments.Look}).actor("deployments")
}

// routine is an actor that looks at all objects and then does one task after
// the other. It calls look again after each write by any client, and at the
// time due that look has returned.
type routine struct {
	// look returns the tasks to do now, and the time at which there will be
	// more tasks even if no object changes. A zero time means never. The result
	// depends only on the world and the time.
	look func(w *reconciletest.World, seen *deployments.Cache, now time.Time) (
		todo []deployments.Task, due time.Time, err error)

	world   *reconciletest.World
	client  kubernetes.Interface
	seen    *deployments.Cache
	version int64 // the version of the world when the routine last looked
	todo    []deployments.Task
	due     time.Time
}

// actor returns an Actor that runs the routine. Only one case at a time may use
// it.
func (r *routine) actor(name string) reconciletest.Actor {
	return reconciletest.Actor{
		Name:    name,
		Enabled: func(w *reconciletest.World) bool { return len(r.refresh(w)) > 0 },
		Do:      r.doFirst,
		Due: func(w *reconciletest.World) time.Time {
			r.refresh(w)
			return r.due
		},
	}
}

// refresh returns the tasks. It looks again if the world has changed or the
// time has come.
func (r *routine) refresh(w *reconciletest.World) []deployments.Task {
	if r.world != w { // a new run: versions start again
		*r = routine{look: r.look, world: w, client: w.Client(), seen: deployments.NewCache(), version: -1}
	}
	now, version := time.Now(), w.Version()
	if version == r.version && (r.due.IsZero() || now.Before(r.due)) {
		return r.todo
	}
	var err error
	if r.todo, r.due, err = r.look(w, r.seen, now); err != nil {
		panic(fmt.Sprintf("actors: reading built-in kinds: %v", err)) // every world has them
	}
	r.version = version
	return r.todo
}

// doFirst does the first task. A task that fails, for example with a conflict
// because its object has changed, is not retried until look is called again.
// The other tasks continue.
func (r *routine) doFirst(w *reconciletest.World) {
	todo := r.refresh(w)
	if len(todo) == 0 {
		return
	}
	r.todo = todo[1:]
	_ = todo[0](context.Background(), r.client)
}
