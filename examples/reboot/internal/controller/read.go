package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/informer"
)

// world reads and writes the groups and nodes of a cluster.
type world struct {
	nodes      NodeClient
	groups     GroupClient
	nodeCache  *informer.Informer[*corev1.Node]
	groupCache *informer.Informer[*api.RebootGroup]
}

// groupSet contains the groups in the cache, or the groups on the server as of
// one list.
type groupSet struct {
	// groups are the groups whose selectors and slots are known. For a group
	// that cannot be decoded as a whole, it has only these, or its last state
	// that could be decoded.
	groups []*api.RebootGroup
	// unreadable contains the errors of the groups that cannot be decoded, by
	// name. It is empty for groups in the cache.
	unreadable map[string]error
	// unclear are the names of unreadable groups whose selectors or slots
	// cannot be decoded, either.
	unclear []string
}

// rereadPeriod is how often unreadable groups are read again: their changes may
// cause no event.
const rereadPeriod = time.Minute

// reread returns the time after which the groups must be read again, or 0.
func (s groupSet) reread() time.Duration {
	if len(s.unreadable) == 0 {
		return 0
	}
	return rereadPeriod
}

func (s groupSet) membership() rules.Membership { return rules.NewMembership(s.groups, s.unclear...) }

func (w *world) cachedGroups() groupSet {
	return groupSet{groups: slices.Collect(w.groupCache.Snapshot().All())}
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

func (w *world) liveGroups(ctx context.Context) (groupSet, error) {
	list, err := w.groups.List(ctx, metav1.ListOptions{})
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &refused):
		return groupSet{}, fmt.Errorf("listing RebootGroups: %w", err)
	case err != nil:
		return w.decodeEach(ctx, err)
	case list.ResourceVersion == "":
		return groupSet{}, errors.New("listing RebootGroups: the answer has no resourceVersion, so it is not from the API server")
	}
	l := groupSet{groups: make([]*api.RebootGroup, 0, len(list.Items))}
	for i := range list.Items {
		l.groups = append(l.groups, &list.Items[i])
	}
	return l, nil
}

// decodeEach lists the groups again, and decodes each group on its own. So one
// group that cannot be decoded does not hide the others. liveGroups calls it
// when the list as a whole could not be decoded, with the error as cause.
func (w *world) decodeEach(ctx context.Context, cause error) (groupSet, error) {
	body, err := w.groups.GetClient().Get().Resource(api.Resource).Do(ctx).Raw()
	if err != nil {
		return groupSet{}, fmt.Errorf("listing RebootGroups: %w", err)
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`

		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil || list.Kind != "RebootGroupList" || list.ResourceVersion == "" {
		return groupSet{}, fmt.Errorf("listing RebootGroups: %w", cause)
	}
	l := groupSet{unreadable: map[string]error{}}
	for _, item := range list.Items {
		group := &api.RebootGroup{}
		if err := json.Unmarshal(item, group); err == nil {
			l.groups = append(l.groups, group)
			continue
		}
		if err := w.salvage(item, &l); err != nil {
			return groupSet{}, fmt.Errorf("listing RebootGroups: %w", cause)
		}
	}
	return l, nil
}

// salvage adds a group that cannot be decoded to s, with its name, selector and
// slots. If these cannot be decoded, either, it adds the last state in the
// cache. Errors: the group has no name.
func (w *world) salvage(item json.RawMessage, s *groupSet) error {
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(item, &named); err != nil {
		return err
	}
	if named.Name == "" {
		return errors.New("a group has no name")
	}
	s.unreadable[named.Name] = fmt.Errorf("reading RebootGroup %q: %w", named.Name, json.Unmarshal(item, &api.RebootGroup{}))
	var spec struct {
		Spec struct {
			NodeSelector *metav1.LabelSelector `json:"nodeSelector"`
		} `json:"spec"`
	}
	var status struct {
		Status struct {
			Slots []api.Slot `json:"slots"`
		} `json:"status"`
	}
	if json.Unmarshal(item, &spec) == nil && json.Unmarshal(item, &status) == nil {
		group := &api.RebootGroup{ObjectMeta: named.ObjectMeta}
		group.Spec.NodeSelector, group.Status.Slots = spec.Spec.NodeSelector, status.Status.Slots
		s.groups = append(s.groups, group)
		return nil
	}
	s.unclear = append(s.unclear, named.Name)
	if last, ok := w.groupCache.Get(types.NamespacedName{Name: named.Name}); ok && last.UID == named.UID {
		s.groups = append(s.groups, last)
	}
	return nil
}

// ledger returns the live group with this name, or nil, and all groups from the
// same list.
func (w *world) ledger(ctx context.Context, name string) (*api.RebootGroup, groupSet, error) {
	all, err := w.liveGroups(ctx)
	if err == nil {
		err = all.unreadable[name]
	}
	if err != nil {
		return nil, groupSet{}, err
	}
	for _, g := range all.groups {
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
