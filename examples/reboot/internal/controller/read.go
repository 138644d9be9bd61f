package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
)

// world reads and writes the groups and nodes of a cluster.
type world struct {
	nodes      NodeClient
	groups     GroupClient
	nodeCache  *informer.Informer[*corev1.Node]
	groupCache *informer.Informer[*api.RebootGroup]
}

func (w *world) cachedGroups() []*api.RebootGroup {
	return slices.Collect(w.groupCache.Snapshot().All())
}

func (w *world) cachedNodes() []*corev1.Node {
	var nodes []*corev1.Node
	for n := range w.nodeCache.Snapshot().All() {
		nodes = append(nodes, n)
	}
	return nodes
}

func (w *world) liveNodes(ctx context.Context) ([]*corev1.Node, error) {
	list, err := w.nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
}

func (w *world) liveGroups(ctx context.Context) ([]*api.RebootGroup, error) {
	list, err := w.groups.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing RebootGroups: %w", err)
	}
	groups := make([]*api.RebootGroup, 0, len(list.Items))
	for i := range list.Items {
		groups = append(groups, &list.Items[i])
	}
	return groups, nil
}

// ledger returns the live group with this name, or nil, and all groups from the
// same list.
func (w *world) ledger(ctx context.Context, name string) (*api.RebootGroup, []*api.RebootGroup, error) {
	groups, err := w.liveGroups(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups {
		if g.Name == name {
			return g, groups, nil
		}
	}
	return nil, groups, nil
}

// liveNode returns the live node, or nil if it does not exist.
func (w *world) liveNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := w.nodes.Get(ctx, name, metav1.GetOptions{})
	if names.IsNotFound(err, corev1.Resource("nodes"), name) { // The answer of a proxy is not taken for it, since the slot is released then.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %q: %w", name, err)
	}
	return node, nil
}

func (w *world) cachedNode(name string) *corev1.Node {
	node, _ := w.nodeCache.Get(types.NamespacedName{Name: name}) // nil if it is not cached
	return node
}
