package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/reconcile"
)

// pause is how long the agent waits after it has told the machine to reboot. If
// the machine has refused, the agent then asks the controller for permission
// again. Otherwise it checks whether the kernel has another boot id.
const pause = time.Minute

// resume performs the next step of an accepted reboot.
func (a *Agent) resume(
	ctx context.Context, node *corev1.Node, p protocol.Progress, permit *protocol.Permission,
) (reconcile.Result, error) {
	if p.CordonedByAgent && !node.Spec.Unschedulable {
		p.CordonedByAgent = false // Another client has uncordoned the node.
		return reconcile.Result{}, a.proceed(ctx, node, p)
	}
	m := a.remember(p)
	switch rules.ForProgress(&p, permit, a.options.Start) {
	case rules.Evict:
		return a.evict(ctx, node, p)
	case rules.Ask:
		if left := pause - time.Since(m.refused); !m.refused.IsZero() && left > 0 {
			return reconcile.After(min(left, p.Silence()/4)), a.beat(ctx, node, p)
		}
		return reconcile.Result{}, a.question(ctx, node, p)
	case rules.Await:
		return reconcile.After(p.Silence() / 4), a.beat(ctx, node, p)
	case rules.Tell:
		m.expires = m.asked.Add(time.Duration(permit.Seconds) * time.Second)
		if m.asked.IsZero() || !time.Now().Before(m.expires) {
			return reconcile.Result{}, a.question(ctx, node, p)
		}
		return a.tell(ctx, node, p, m)
	case rules.Told:
		return a.told(ctx, node, p, m)
	default:
		return reconcile.Result{}, a.lost(ctx, node, p, m)
	}
}

// question asks the controller whether the machine may reboot now.
func (a *Agent) question(ctx context.Context, node *corev1.Node, p protocol.Progress) error {
	m, start := a.remember(p), time.Now()
	p.Try, p.Waits = p.Try+1, true
	err := a.proceed(ctx, node, p)
	if err == nil {
		m.asked = start
	}
	return err
}

// lost handles a machine that an earlier run of the agent has told to reboot,
// or was about to tell, and that still runs the same boot. The machine was not
// told, has not rebooted yet, or has a boot id that never changes. The agent
// cannot know which, so it does not tell the machine to reboot again. The
// controller ends such a reboot after a while.
func (a *Agent) lost(ctx context.Context, node *corev1.Node, p protocol.Progress, m *memory) error {
	if p.Asked == nil { // An agent of an older release does not set it.
		p.Asked = &protocol.Asked{Start: "of an older release", At: a.now()}
		return a.proceed(ctx, node, p)
	}
	if m.lostShown {
		return nil
	}
	m.lostShown = true
	a.warn(node, "RebootUnproven", "Reboot", fmt.Errorf("the machine was told to reboot at %s, and a later run of "+
		"the agent finds the same boot %s: not telling it again", p.Asked.At.UTC().Format(time.RFC3339), p.BootID))
	return nil
}

// beat shows that the agent is alive. It writes reboot-in-progress if the agent
// has not written it for a while.
func (a *Agent) beat(ctx context.Context, node *corev1.Node, p protocol.Progress) error {
	if m := a.remember(p); !m.wrote.IsZero() && time.Since(m.wrote) < p.Silence()/4 {
		return nil
	}
	return a.proceed(ctx, node, p)
}

// proceed writes reboot-in-progress.
func (a *Agent) proceed(ctx context.Context, node *corev1.Node, p protocol.Progress) error {
	m, start := a.remember(p), time.Now()
	p.Start, p.Beat = a.options.Start, p.Beat+1
	err := protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error {
		return protocol.Proceed(n, p)
	})
	if err == nil {
		m.wrote = start
	}
	return err
}
