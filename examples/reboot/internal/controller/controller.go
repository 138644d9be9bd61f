package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

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
	// GetClient returns the client that sends the requests. While a group
	// cannot be decoded, the controller lists the groups with this client, and
	// decodes each group on its own.
	GetClient() rest.Interface
}

// Controller maintains the ledgers of all groups, and grants the reboots that
// they allow.
type Controller struct {
	world

	options  Options
	control  *reconcile.Controller
	recorder *recorder
}

// New returns a controller. The caller runs it with Run. If there are mistakes
// in the arguments, New returns an error that describes them.
func New(nodes NodeClient, groups GroupClient, o *Options) (*Controller, error) {
	options := o.withDefaults()
	var errs []error
	if nodes == nil || groups == nil {
		errs = append(errs, errors.New("the client for nodes or for groups is nil"))
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

// Run runs the controller until ctx ends, and returns after the last reconcile.
func (c *Controller) Run(ctx context.Context) error { return c.control.Run(ctx) }

// Control returns the underlying controller. Callers can inspect it, or run it
// instead of calling Run.
func (c *Controller) Control() *reconcile.Controller { return c.control }

// groupsOfNode returns the keys of all groups if the change of a node can
// affect a decision, and otherwise no keys. It returns the keys of all groups
// because the selectors of all groups decide which group the node belongs to.
func (c *Controller) groupsOfNode(_ context.Context, oldNode, newNode *corev1.Node) ([]reconcile.Key, error) {
	if oldNode != nil && newNode != nil && !rules.Matters(oldNode, newNode) {
		return nil, nil
	}
	return c.allGroups(), nil
}

// groupsOfGroup returns the keys of all groups if a change of a group can move
// nodes between groups: if the group was created or deleted, if its deletion
// has begun, if its spec has changed, or if it has released a slot.
func (c *Controller) groupsOfGroup(_ context.Context, oldGroup, newGroup *api.RebootGroup) ([]reconcile.Key, error) {
	if oldGroup != nil && newGroup != nil && oldGroup.Generation == newGroup.Generation &&
		(oldGroup.DeletionTimestamp == nil) == (newGroup.DeletionTimestamp == nil) && !released(oldGroup, newGroup) {
		return nil, nil
	}
	return c.allGroups(), nil
}

// released reports whether a node had a slot before the change and has no slot
// after it.
func released(oldGroup, newGroup *api.RebootGroup) bool {
	return slices.ContainsFunc(oldGroup.Status.Slots, func(s api.Slot) bool {
		return !rules.Holds(newGroup.Status.Slots, s.Node)
	})
}

// allGroups returns the keys of all groups, including the default group even if
// it does not exist yet.
func (c *Controller) allGroups() []reconcile.Key {
	keys := []reconcile.Key{{Name: api.DefaultName}}
	for g := range c.groupCache.Snapshot().All() {
		if g.Name != api.DefaultName {
			keys = append(keys, reconcile.Key{Name: g.Name})
		}
	}
	return keys
}
