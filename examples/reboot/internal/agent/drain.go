package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/reconcile"
)

// evict makes one pass over the Pods of the node if DrainPeriod has passed
// since the last pass. A change of the node does not cause an earlier pass.
func (a *Agent) evict(ctx context.Context, node *corev1.Node, p protocol.Progress) (reconcile.Result, error) {
	m := a.remember(p)
	if left := a.options.DrainPeriod - time.Since(m.passed); !m.passed.IsZero() && left > 0 {
		return reconcile.After(left), nil
	}
	m.passed = time.Now()
	limited, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	pass, err := m.drain.Pass(limited, node.Spec.Unschedulable)
	cancel()
	left, notAsked := len(pass.Left), pass.NotAsked()
	if err != nil && left == 0 {
		left, notAsked = 1, 1 // An unknown number of Pods may be left.
	}
	a.returned(ctx, node, m, pass.Returned)
	if rules.Drained(p.Terms, left, notAsked, time.Since(m.began)) {
		return reconcile.Result{}, a.drained(ctx, node, p, pass)
	}
	a.report(ctx, m, pass)
	return reconcile.After(a.options.DrainPeriod), errors.Join(err, a.blocked(ctx, node, p, pass))
}

// report logs the Pods that the drain waits for, if they have changed since the
// last pass. It logs nothing if the evictions of all these Pods are refused,
// because blocked logs the refusals.
func (a *Agent) report(ctx context.Context, m *memory, pass drain.Pass) {
	left := pass.Leftovers()
	if left != m.left && left != pass.Refusals() {
		logr.FromContextOrDiscard(ctx).Info("waiting for Pods to end", "left", left)
	}
	m.left = left
}

// returned logs the first three Pods that were created after the node was
// cordoned, and warns about them in an Event. It does so only if these three
// differ from the ones that were last reported.
func (a *Agent) returned(ctx context.Context, node *corev1.Node, m *memory, pods []string) {
	text := strings.Join(pods[:min(len(pods), 3)], ", ")
	if text == m.returned {
		return
	}
	if m.returned = text; text != "" {
		logr.FromContextOrDiscard(ctx).Info("Pods were created after the node was cordoned, not waiting for them",
			"pods", text)
		a.warn(node, "PodsReturned", "Evict",
			errors.New("not evicting Pods that were created after the node was cordoned: "+text))
	}
}

// blocked writes the refused evictions to the node when they have changed. From
// time to time it also writes the Pods that are left. That shows that the agent
// is alive.
func (a *Agent) blocked(ctx context.Context, node *corev1.Node, p protocol.Progress, pass drain.Pass) error {
	refusals := pass.Refusals()
	changed := p.Blocked != refusals
	p.Blocked, p.Left = refusals, pass.Leftovers()
	if !changed {
		return a.beat(ctx, node, p)
	}
	err := a.proceed(ctx, node, p)
	if err != nil || refusals == "" {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("evictions are refused, retrying", "refusals", refusals)
	a.warn(node, "EvictionBlocked", "Evict", errors.New(refusals))
	return nil
}

// drained writes to the node that the drain is over and that the agent asks for
// permission to reboot. If Pods are left, it warns about them in an Event.
func (a *Agent) drained(ctx context.Context, node *corev1.Node, p protocol.Progress, pass drain.Pass) error {
	p.Drained, p.Blocked, p.Left = true, "", ""
	if err := a.question(ctx, node, p); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("drained the node", "left", pass.Leftovers())
	if !pass.Over() {
		a.warn(node, "DrainForced", "Drain", fmt.Errorf("the drain did not finish within %v and the drain policy is force: "+
			"rebooting although these Pods are still running: %s", p.DrainTimeout(), pass.Leftovers()))
	}
	return nil
}
