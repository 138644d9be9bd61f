package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/informer"
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
	if list.ResourceVersion == "" {
		return nil, errors.New("listing nodes: the answer has no resourceVersion, so it is not from the API server")
	}
	nodes := make([]*corev1.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, nil
}

// live contains the groups on the server. All of them are from one list.
type live struct {
	// groups are the groups whose selectors are known. For a group that cannot
	// be decoded, groups contains its last state that could be decoded.
	groups []*api.RebootGroup
	// unreadable contains the errors of the groups that cannot be decoded, by
	// name.
	unreadable map[string]error
	// unknown is the name of an unreadable group whose selector is not known,
	// or empty.
	unknown string
}

func (w *world) liveGroups(ctx context.Context) (live, error) {
	list, err := w.groups.List(ctx, metav1.ListOptions{})
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &refused):
		return live{}, fmt.Errorf("listing RebootGroups: %w", err)
	case err != nil:
		return w.decodeEach(ctx, err)
	case list.ResourceVersion == "":
		return live{}, errors.New("listing RebootGroups: the answer has no resourceVersion, so it is not from the API server")
	}
	l := live{groups: make([]*api.RebootGroup, 0, len(list.Items))}
	for i := range list.Items {
		l.groups = append(l.groups, &list.Items[i])
	}
	return l, nil
}

// decodeEach lists the groups again, and decodes each group on its own. So one
// group that cannot be decoded does not hide the others. liveGroups calls it
// when the list as a whole could not be decoded, with the error as cause.
func (w *world) decodeEach(ctx context.Context, cause error) (live, error) {
	body, err := w.groups.GetClient().Get().Resource(api.Resource).Do(ctx).Raw()
	if err != nil {
		return live{}, fmt.Errorf("listing RebootGroups: %w", err)
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`

		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil || list.Kind != "RebootGroupList" || list.ResourceVersion == "" {
		return live{}, fmt.Errorf("listing RebootGroups: %w", cause)
	}
	l := live{unreadable: map[string]error{}}
	for _, item := range list.Items {
		group := &api.RebootGroup{}
		if err := json.Unmarshal(item, group); err == nil {
			l.groups = append(l.groups, group)
			continue
		}
		var named metav1.PartialObjectMetadata
		if json.Unmarshal(item, &named) != nil || named.Name == "" {
			return live{}, fmt.Errorf("listing RebootGroups: %w", cause)
		}
		l.unreadable[named.Name] = fmt.Errorf("reading RebootGroup %q: %w", named.Name, json.Unmarshal(item, group))
		last, ok := w.groupCache.Get(types.NamespacedName{Name: named.Name})
		if ok && last.UID == named.UID {
			l.groups = append(l.groups, last)
		} else {
			l.unknown = named.Name
		}
	}
	return l, nil
}

// ledger returns the live group with this name, or nil, and all groups from the
// same list.
func (w *world) ledger(ctx context.Context, name string) (*api.RebootGroup, []*api.RebootGroup, error) {
	l, err := w.liveGroups(ctx)
	if err == nil {
		err = l.unreadable[name]
	}
	if err != nil {
		return nil, nil, err
	}
	for _, g := range l.groups {
		if g.Name == name {
			return g, l.groups, nil
		}
	}
	return nil, l.groups, nil
}

func (w *world) cachedNode(name string) *corev1.Node {
	node, _ := w.nodeCache.Get(types.NamespacedName{Name: name}) // nil if it is not cached
	return node
}
