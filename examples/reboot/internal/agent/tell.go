package agent

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/reconcile"
)

// tell first records on the node that the machine is about to be told to
// reboot, and then tells it. If the agent restarts in between, its new run
// cannot know whether the machine was told.
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

// told tells the machine to reboot, after tell has recorded it. If the machine
// refuses, or the controller's permission has expired, told removes the record.
// If the reboot was called off in the meantime, it does nothing. A machine that
// has accepted the call, or has not answered, may still go down at any time. So
// its record stays, it is not told again, and the controller gives up after a
// while.
func (a *Agent) told(
	ctx context.Context, node *corev1.Node, p protocol.Progress, m *memory,
) (reconcile.Result, error) {
	if !m.called.IsZero() && m.refusal == nil {
		return reconcile.After(pause), nil
	}
	live, err := a.stillInProgress(ctx, node, p)
	if err != nil || live == nil {
		return reconcile.Result{}, err
	}
	if m.refusal == nil && !time.Now().Before(m.expires) {
		m.refusal = errors.New("the controller's permission expired before the machine was told to reboot")
	}
	if m.refusal == nil {
		if m.refusal = a.reboot(ctx, p, m); m.refusal == nil {
			return reconcile.After(pause), nil
		}
	}
	return reconcile.Result{}, a.refuse(ctx, live, m)
}

// reboot tells the machine to reboot, and returns the machine's refusal. It
// returns nil for a machine that does not answer, because it may still reboot,
// and for a machine that already runs another boot.
func (a *Agent) reboot(ctx context.Context, p protocol.Progress, m *memory) (refusal error) {
	limited, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	defer cancel()
	m.called = time.Now()
	err := a.options.Machine.Reboot(limited, p.BootID)
	switch {
	case errors.Is(err, machine.ErrOtherBoot): // The next reconcile handles it.
		return nil
	case err != nil && limited.Err() == nil && !errors.Is(err, machine.ErrUnanswered):
		return err
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "the machine has not answered, but may reboot",
			"request", p.Request.Request)
	default:
		logr.FromContextOrDiscard(ctx).Info("told the machine to reboot", "request", p.Request.Request)
	}
	return nil
}

// refuse writes to the node why the machine was not rebooted, and sends an
// Event about it. It also removes the record that the machine was told to
// reboot, so that the agent can try again. Only the controller decides when to
// give up.
func (a *Agent) refuse(ctx context.Context, node *corev1.Node, m *memory) error {
	p, reason := *protocol.Read(node).InProgress, m.refusal
	p.Asked, p.Waits, p.Refused = nil, false, reason.Error()
	if err := a.proceed(ctx, node, p); err != nil {
		return err
	}
	m.refused, m.called, m.refusal = time.Now(), time.Time{}, nil
	logr.FromContextOrDiscard(ctx).Info("the machine was not rebooted, retrying later", "why", reason.Error())
	a.warn(node, "RebootRefused", "Reboot", reason)
	return nil
}

// stillInProgress returns the live node. It returns nil if the reboot was
// called off, if another run of the agent has recorded a call since, or if the
// node was deleted or recreated. The cache may not show that yet.
func (a *Agent) stillInProgress(ctx context.Context, node *corev1.Node, p protocol.Progress) (*corev1.Node, error) {
	live, err := protocol.Live(ctx, a.nodes, node.Name)
	if err != nil || live == nil {
		return nil, err
	}
	current := protocol.Read(live).InProgress
	if live.UID != node.UID || current == nil || current.Request != p.Request || current.BootID != p.BootID ||
		current.Asked == nil || current.Asked.Start != a.options.Start {
		return nil, nil
	}
	return live, nil
}
