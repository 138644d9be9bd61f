package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// refusedPause is how long the agent waits after the machine's refusal before
// it asks the controller again.
const refusedPause = time.Minute

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
		if left := refusedPause - time.Since(m.refused); !m.refused.IsZero() && left > 0 {
			return reconcile.After(min(left, p.Silence()/4)), a.beat(ctx, node, p)
		}
		return reconcile.Result{}, a.question(ctx, node, p)
	case rules.Await:
		return reconcile.After(p.Silence() / 4), a.beat(ctx, node, p)
	case rules.Tell:
		m.until = m.asked.Add(time.Duration(permit.Seconds) * time.Second)
		if m.asked.IsZero() || !time.Now().Before(m.until) {
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
	m, before := a.remember(p), time.Now()
	p.Try, p.Waits = p.Try+1, true
	err := a.proceed(ctx, node, p)
	if err == nil {
		m.asked = before
	}
	return err
}

// tell records that the machine is told to reboot, and then tells it. From then
// on only this start of the agent knows whether it has.
func (a *Agent) tell(
	ctx context.Context, node *corev1.Node, p protocol.Progress, m *memory,
) (reconcile.Result, error) {
	p.Asked, p.Waits, p.Refused = &protocol.Asked{Start: a.options.Start, At: a.now()}, false, ""
	m.called, m.refusal = time.Time{}, nil
	if err := a.proceed(ctx, node, p); err != nil {
		return reconcile.Result{}, err
	}
	return a.told(ctx, node, p, m)
}

// told tells the machine to reboot. If the machine refuses, or does not go down
// in time, told removes the record.
func (a *Agent) told(
	ctx context.Context, node *corev1.Node, p protocol.Progress, m *memory,
) (reconcile.Result, error) {
	patience := a.options.Patience - time.Since(m.called)
	switch {
	case !m.called.IsZero() && m.refusal == nil && patience > 0:
		return reconcile.After(patience), nil
	case !m.called.IsZero() && m.refusal == nil:
		m.refusal = fmt.Errorf("the machine was told to reboot %v ago, but has not gone down", a.options.Patience)
	}
	live, err := a.stillInProgress(ctx, node, p)
	if err != nil || live == nil {
		return reconcile.Result{}, err
	}
	if m.refusal == nil && !time.Now().Before(m.until) {
		m.refusal = errors.New("the controller's permission has expired before the machine was told to reboot")
	}
	if m.refusal == nil {
		if m.refusal = a.reboot(ctx, p, m); m.refusal == nil {
			return reconcile.After(a.options.Patience), nil
		}
	}
	return reconcile.Result{}, a.refuse(ctx, live, m)
}

// reboot tells the machine to reboot, and returns its refusal. A machine that
// does not answer may reboot.
func (a *Agent) reboot(ctx context.Context, p protocol.Progress, m *memory) (refusal error) {
	limited, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	defer cancel()
	m.called = time.Now()
	err := a.options.Machine.Reboot(limited, p.BootID)
	switch {
	case errors.Is(err, machine.ErrOtherBoot): // The next reconcile handles it.
		return nil
	case err != nil && limited.Err() == nil:
		return err
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "the machine has not answered, but may reboot",
			"request", p.Request.Request)
	default:
		logr.FromContextOrDiscard(ctx).Info("told the machine to reboot", "request", p.Request.Request)
	}
	return nil
}

// refuse removes the record that the machine was told to reboot. The controller
// decides when to give up.
func (a *Agent) refuse(ctx context.Context, node *corev1.Node, m *memory) error {
	p, why := *protocol.Read(node).InProgress, m.refusal
	p.Asked, p.Waits, p.Refused = nil, false, why.Error()
	if err := a.proceed(ctx, node, p); err != nil {
		return err
	}
	m.refused, m.called, m.refusal = time.Now(), time.Time{}, nil
	logr.FromContextOrDiscard(ctx).Info("the machine was not rebooted, retrying later", "why", why.Error())
	a.warn(node, "RebootRefused", "Reboot", why)
	return nil
}

// lost handles a machine that an earlier start of the agent has told to reboot,
// and that still runs the same boot. Either it has not rebooted yet, or its
// boot id does not change. The agent does not tell it again, and the controller
// ends the reboot after a while.
func (a *Agent) lost(ctx context.Context, node *corev1.Node, p protocol.Progress, m *memory) error {
	if p.Asked == nil { // An agent of an older release does not set it.
		p.Asked = &protocol.Asked{Start: "of an older release", At: a.now()}
		return a.proceed(ctx, node, p)
	}
	if m.lostShown {
		return nil
	}
	m.lostShown = true
	a.warn(node, "RebootUnproven", "Reboot", fmt.Errorf("the machine was told to reboot at %s, and a later start of "+
		"the agent finds the same boot %s: it is not told again", p.Asked.At.UTC().Format(time.RFC3339), p.BootID))
	return nil
}

// stillInProgress returns the live node. It returns nil if the reboot was
// called off or the node was recreated, which the cache may not show yet.
func (a *Agent) stillInProgress(ctx context.Context, node *corev1.Node, p protocol.Progress) (*corev1.Node, error) {
	live, err := a.nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if names.IsNotFound(err, corev1.Resource("nodes"), node.Name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %q before its reboot: %w", node.Name, err)
	}
	now := protocol.Read(live).InProgress
	if live.UID != node.UID || now == nil || now.Request != p.Request || now.BootID != p.BootID ||
		now.Asked == nil || now.Asked.Start != a.options.Start {
		return nil, nil
	}
	return live, nil
}

// beat shows that the agent is alive, by a write if there was none for a while.
func (a *Agent) beat(ctx context.Context, node *corev1.Node, p protocol.Progress) error {
	if m := a.remember(p); !m.wrote.IsZero() && time.Since(m.wrote) < p.Silence()/4 {
		return nil
	}
	return a.proceed(ctx, node, p)
}

// proceed writes reboot-in-progress.
func (a *Agent) proceed(ctx context.Context, node *corev1.Node, p protocol.Progress) error {
	m, before := a.remember(p), time.Now()
	p.Start, p.Beat = a.options.Start, p.Beat+1
	err := a.patch(ctx, node, func(n *corev1.Node) error {
		return protocol.Proceed(n, p)
	})
	if err == nil {
		m.wrote = before
	}
	return err
}
