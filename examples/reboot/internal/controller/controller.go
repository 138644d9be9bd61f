package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// A NodeClient reads and patches nodes, as clientset.CoreV1().Nodes() does.
type NodeClient interface {
	informer.Client[*corev1.Node, *corev1.NodeList]
	patch.Client[*corev1.Node]
}

// A GroupClient reads, creates and patches groups, as [api.Client] does.
type GroupClient interface {
	informer.Client[*api.RebootGroup, *api.RebootGroupList]
	patch.Client[*api.RebootGroup]
	Create(ctx context.Context, g *api.RebootGroup, o metav1.CreateOptions) (*api.RebootGroup, error)
}

// Controller keeps the ledgers of all groups, and grants the reboots that they
// allow.
type Controller struct {
	world

	options  Options
	control  *reconcile.Controller
	recorder *recorder
}

// New returns a controller that has not started. Errors: every fault of the
// arguments, joined.
func New(nodes NodeClient, groups GroupClient, o *Options) (*Controller, error) {
	options := o.withDefaults()
	var errs []error
	if nodes == nil || groups == nil {
		errs = append(errs, errors.New("a client is nil"))
	}
	if err := errors.Join(append(errs, options.validate())...); err != nil {
		return nil, fmt.Errorf("making the reboot controller: %w", err)
	}
	c := &Controller{
		world: world{
			nodes:      nodes,
			groups:     groups,
			nodeCache:  informer.For(nodes, &informer.Options{DropManagedFields: true}),
			groupCache: informer.For(groups, &informer.Options{DropManagedFields: true}),
		},
		options:  options,
		recorder: newRecorder(options.Events, options.EventInterval),
	}
	control, err := reconcile.New(options.Name, c.groupCache, reconcile.Func[*api.RebootGroup](c.reconcile),
		&reconcile.Options{
			Triggers: []reconcile.Trigger{
				reconcile.Mapped(c.nodeCache, c.groupsOfNode),
				reconcile.Mapped(c.groupCache, c.groupsOfGroup),
			},
			Leader:  options.Leader,
			Workers: options.Workers,
			Backoff: options.Backoff,
		})
	if err != nil {
		return nil, fmt.Errorf("making the reboot controller: %w", err)
	}
	c.control = control
	return c, nil
}

// Run keeps the groups until ctx ends, and returns when the last reconcile has.
func (c *Controller) Run(ctx context.Context) error { return c.control.Run(ctx) }

// Control returns the underlying controller, to be inspected, or to be run
// instead of c.
func (c *Controller) Control() *reconcile.Controller { return c.control }

// groupsOfNode looks at every group when a node changes in a way that may matter:
// which one it was and is in follows from all of them.
func (c *Controller) groupsOfNode(_ context.Context, before, after *corev1.Node) ([]reconcile.Key, error) {
	if before != nil && after != nil && !rules.Matters(before, after) {
		return nil, nil
	}
	return c.allGroups(), nil
}

// groupsOfGroup looks at every group when the spec of one changes, or it
// releases a slot: it may take nodes from the others, or leave them to them.
func (c *Controller) groupsOfGroup(_ context.Context, before, after *api.RebootGroup) ([]reconcile.Key, error) {
	if before != nil && after != nil && before.Generation == after.Generation &&
		(before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) && !released(before, after) {
		return nil, nil
	}
	return c.allGroups(), nil
}

// released reports whether a node that had a slot no longer has one.
func released(before, after *api.RebootGroup) bool {
	return slices.ContainsFunc(before.Status.Slots, func(s api.Slot) bool {
		return !rules.Holds(after.Status.Slots, s.Node)
	})
}

// allGroups has the default group too when there is none yet.
func (c *Controller) allGroups() []reconcile.Key {
	keys := []reconcile.Key{{Name: api.DefaultName}}
	for g := range c.groupCache.Snapshot().All() {
		if g.Name != api.DefaultName {
			keys = append(keys, reconcile.Key{Name: g.Name})
		}
	}
	return keys
}
