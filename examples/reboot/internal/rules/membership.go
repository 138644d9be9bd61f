package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// A Membership maps nodes to the group that they belong to: the one that
// selects it, or [api.DefaultName] if no other does. A node that several others
// select belongs to none of them. A group with a selector that cannot be read,
// or that is being deleted, selects nothing.
type Membership struct {
	groups []selecting
}

type selecting struct {
	name     string
	selector labels.Selector
}

// NewMembership returns the membership of the given groups.
func NewMembership(groups []*api.RebootGroup) Membership {
	var m Membership
	for _, g := range groups {
		if s, err := Selector(g); err == nil && g.DeletionTimestamp == nil {
			m.groups = append(m.groups, selecting{g.Name, s})
		}
	}
	slices.SortFunc(m.groups, func(a, b selecting) int {
		return cmp.Or(cmp.Compare(last(a.name), last(b.name)), cmp.Compare(a.name, b.name))
	})
	return m
}

func last(name string) int {
	if name == api.DefaultName {
		return 1
	}
	return 0
}

// Selector returns the group's node selector, by default everything.
// Errors: the selector cannot be read.
func Selector(g *api.RebootGroup) (labels.Selector, error) {
	if g.Spec.NodeSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(g.Spec.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("RebootGroup %q: spec.nodeSelector cannot be read (%w): "+
			"correct it, or remove it to select all nodes", g.Name, err)
	}
	return s, nil
}

// Group returns the name of the group that node belongs to, or "". If that is
// because several groups select it, rivals are their names.
func (m Membership) Group(node *corev1.Node) (group string, rivals []string) {
	var all []string
	for _, g := range m.groups {
		if g.selector.Matches(labels.Set(node.Labels)) && (g.name != api.DefaultName || len(all) == 0) {
			all = append(all, g.name)
		}
	}
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	default:
		return "", all
	}
}

// Contested says why a node that several groups select gets no slot.
func Contested(rivals []string) string {
	return fmt.Sprintf("the RebootGroups %s select it, and none may reboot it until only one does",
		strings.Join(rivals, " and "))
}

// Stray returns why the node of a slot no longer belongs to the group, or "".
func (m Membership) Stray(group string, node *corev1.Node) string {
	switch owner, rivals := m.Group(node); {
	case owner == group:
		return ""
	case slices.Contains(rivals, group):
		return Contested(rivals)
	case owner != "":
		return fmt.Sprintf("it belongs to RebootGroup %s now", owner)
	default:
		return fmt.Sprintf("RebootGroup %s no longer selects it", group)
	}
}

// HolderOf returns the group that holds a slot for the node, nil if none does.
func HolderOf(node *corev1.Node, groups []*api.RebootGroup) *api.RebootGroup {
	for _, g := range groups {
		if slices.ContainsFunc(g.Status.Slots, func(s api.Slot) bool { return s.NodeUID == node.UID }) {
			return g
		}
	}
	return nil
}
