package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// ask asks for a reboot when a file of the host does.
func (a *Agent) ask(ctx context.Context, node *corev1.Node, state protocol.State) (reconcile.Result, error) {
	if a.options.Sentinel == nil {
		return reconcile.Result{}, nil
	}
	request, err := a.options.Sentinel()
	if err != nil {
		return reconcile.Result{}, err
	}
	if !rules.Asks(state, request) {
		return reconcile.After(a.options.AskPeriod), nil
	}
	err = a.patch(ctx, node, func(n *corev1.Node) error {
		protocol.Ask(n, request)
		return nil
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	logr.FromContextOrDiscard(ctx).Info("asked for a reboot", "request", request)
	a.note(node, "RebootRequired", "Ask", "The host requires a reboot: %s", request)
	return reconcile.After(a.options.AskPeriod), nil
}

// accept takes the reboot on, with the boot that must end.
func (a *Agent) accept(ctx context.Context, node *corev1.Node, g protocol.Grant, bootID string) error {
	progress := protocol.Progress{Request: g.Request, Terms: g.Terms, BootID: bootID, AcceptedAt: now()}
	err := a.patch(ctx, node, func(n *corev1.Node) error {
		return protocol.Accept(n, progress)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("accepted the reboot", "request", g.Request.Request, "epoch", g.Epoch)
	a.note(node, "Draining", "Drain", "Accepted the reboot for request %q and cordoned the node", g.Request.Request)
	return nil
}

// resume brings an accepted reboot about.
func (a *Agent) resume(
	ctx context.Context, node *corev1.Node, p protocol.Progress,
) (reconcile.Result, error) {
	if p.CordonedByAgent && !node.Spec.Unschedulable {
		return reconcile.Result{}, a.patch(ctx, node, func(n *corev1.Node) error {
			return protocol.Disown(n, p)
		})
	}
	if !p.Drained {
		return a.drain(ctx, node, p)
	}
	still, err := a.stillInProgress(ctx, node, p)
	if err != nil || !still {
		return reconcile.Result{}, err
	}
	if err := a.reboot(ctx, node, p.BootID); err != nil {
		return reconcile.Result{}, err
	}
	logr.FromContextOrDiscard(ctx).Info("asked the machine to reboot", "request", p.Request.Request)
	return reconcile.After(a.options.Patience), nil
}

// stillInProgress looks at the live node: the cache may not know yet that the
// reboot was called off, or the node recreated.
func (a *Agent) stillInProgress(ctx context.Context, node *corev1.Node, p protocol.Progress) (bool, error) {
	live, err := a.nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if names.IsNotFound(err, corev1.Resource("nodes"), node.Name) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node %q before its reboot: %w", node.Name, err)
	}
	state := protocol.Read(live)
	return live.UID == node.UID && state.InProgress != nil && state.InProgress.Request == p.Request &&
		state.InProgress.BootID == p.BootID && state.InProgress.Drained, nil
}

func (a *Agent) reboot(ctx context.Context, node *corev1.Node, bootID string) error {
	limited, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	defer cancel()
	err := a.options.Machine.Reboot(limited, bootID)
	if errors.Is(err, machine.ErrOtherBoot) {
		return nil // The next reconcile sees it too.
	}
	if err != nil {
		a.warn(node, "RebootRefused", "Reboot", err)
		return fmt.Errorf("rebooting node %q: %w", node.Name, err)
	}
	return nil
}

// complete ends the reboot: the kernel runs another boot than the one that was to end.
func (a *Agent) complete(ctx context.Context, node *corev1.Node, p protocol.Progress, bootID string) error {
	outcome := protocol.Outcome{
		Request: p.Request, FromBootID: p.BootID, ToBootID: bootID, At: now(), Result: protocol.Rebooted,
	}
	uncordon := protocol.MayUncordon(node, &p)
	err := a.patch(ctx, node, func(n *corev1.Node) error {
		return protocol.Complete(n, outcome, uncordon)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("the reboot is complete", "request", p.Request.Request, "uncordoned", uncordon)
	a.note(node, "Rebooted", "Reboot", "Rebooted for request %q: boot %s follows %s", p.Request.Request, bootID, p.BootID)
	return nil
}

// restamp notes a boot without a request: the controller waits for the
// kubelet to report the newest.
func (a *Agent) restamp(ctx context.Context, node *corev1.Node, o protocol.Outcome, bootID string) error {
	o.ToBootID, o.At = bootID, now()
	return a.patch(ctx, node, func(n *corev1.Node) error { return protocol.Restamp(n, o) })
}

// patch edits the node under the lock: it must still be the one of the cache.
func (a *Agent) patch(ctx context.Context, node *corev1.Node, edit func(*corev1.Node) error) error {
	next := node.DeepCopy()
	if err := edit(next); err != nil {
		return err
	}
	_, err := patch.Merge(ctx, patch.ClusterScoped(a.nodes), node, &patch.Options{Lock: true}, func(n *corev1.Node) {
		n.Annotations, n.Spec.Unschedulable = next.Annotations, next.Spec.Unschedulable
	})
	return err
}
