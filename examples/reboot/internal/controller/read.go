package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/roster"
	"github.com/homeostat/homeostat/informer"
)

// world reads and writes the groups and nodes of a cluster.
type world struct {
	nodes      NodeClient
	groups     GroupClient
	nodeCache  *informer.Informer[*corev1.Node]
	groupCache *informer.Informer[*api.RebootGroup]
}

// rereadPeriod is how often unreadable groups are read again: their changes may
// cause no event.
const rereadPeriod = time.Minute

// reread returns the time after which the groups must be read again, or 0 if
// all of them could be read.
func reread(all roster.Roster) time.Duration {
	if len(all.Unreadable) == 0 {
		return 0
	}
	return rereadPeriod
}

func (w *world) cachedGroups() roster.Roster {
	return roster.Roster{Groups: slices.Collect(w.groupCache.Snapshot().All())}
}

func (w *world) cachedGroup(name string) *api.RebootGroup {
	group, _ := w.groupCache.Get(types.NamespacedName{Name: name}) // nil if it is not cached
	return group
}

func (w *world) liveGroups(ctx context.Context) (roster.Roster, error) {
	return roster.Read(ctx, w.groups, w.cachedGroup)
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
	if list.ResourceVersion == "" {
		return nil, errors.New("listing nodes: the answer has no resourceVersion, so it is not from the API server")
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
}

// ledger returns the live group with this name, or nil if it does not exist,
// and all groups from the same list. It returns an error if the group exists
// but cannot be decoded.
func (w *world) ledger(ctx context.Context, name string) (*api.RebootGroup, roster.Roster, error) {
	all, err := w.liveGroups(ctx)
	if err == nil {
		err = all.Unreadable[name]
	}
	if err != nil {
		return nil, roster.Roster{}, err
	}
	for _, g := range all.Groups {
		if g.Name == name {
			return g, all, nil
		}
	}
	return nil, all, nil
}

func (w *world) cachedNode(name string) *corev1.Node {
	node, _ := w.nodeCache.Get(types.NamespacedName{Name: name}) // nil if it is not cached
	return node
}
