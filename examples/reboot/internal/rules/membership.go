package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// A Membership maps nodes to their groups. A node belongs to the group that
// selects it. [api.DefaultName] contains only nodes that no other group
// selects. A node that several other groups select belongs to none of them. A
// group selects no nodes if its selector is malformed or it is being deleted.
type Membership struct {
	groups  []selecting
	unclear []string // the groups whose selectors or slots cannot be read
}

type selecting struct {
	name     string
	selector labels.Selector
}

// NewMembership returns the membership of the given groups. unclear are the
// names of groups whose selectors or slots cannot be read. They may be among the
// given groups, with the part that can be read.
func NewMembership(groups []*api.RebootGroup, unclear ...string) Membership {
	m := Membership{unclear: slices.Clone(unclear)}
	for _, g := range groups {
		s, err := Selector(g)
		switch {
		case g.DeletionTimestamp != nil:
		case err != nil:
			m.unclear = append(m.unclear, g.Name)
		default:
			m.groups = append(m.groups, selecting{g.Name, s})
		}
	}
	slices.Sort(m.unclear)
	m.unclear = slices.Compact(m.unclear)
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

// errNoCondition is the error of a selector without a condition. It would select
// all nodes, but it is more likely that its condition was lost. For example, a
// template has made {role: null} of an empty value, and the server drops null.
var errNoCondition = errors.New("it has no condition, perhaps because a label without a value was dropped")

// Selector returns the group's node selector. Without one it selects all nodes.
// It returns an error if the selector is malformed or empty.
func Selector(g *api.RebootGroup) (labels.Selector, error) {
	if g.Spec.NodeSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(g.Spec.NodeSelector)
	if err == nil && s.Empty() {
		err = errNoCondition
	}
	if err != nil {
		return nil, fmt.Errorf("RebootGroup %q: spec.nodeSelector is invalid (%w): "+
			"correct it, or remove it to select all nodes", g.Name, err)
	}
	return s, nil
}

// Group returns the name of the group that node belongs to, or the empty
// string. If several groups select the node, rivals are their names.
func (m Membership) Group(node *corev1.Node) (group string, rivals []string) {
	var matching []string
	for _, g := range m.groups {
		if g.selector.Matches(labels.Set(node.Labels)) && (g.name != api.DefaultName || len(matching) == 0) {
			matching = append(matching, g.name)
		}
	}
	switch len(matching) {
	case 0:
		return "", nil
	case 1:
		return matching[0], nil
	default:
		return "", matching
	}
}

// Doubt returns why it is not certain that the nodes of a group belong to it, or
// the empty string. The nodes of [api.DefaultName] are the ones that no other
// group selects. So while the selector of a group cannot be read, any of them
// may belong to that group. A node that a group selects by its own selector
// certainly belongs to it.
func (m Membership) Doubt(group string) string {
	if group != api.DefaultName || len(m.unclear) == 0 {
		return ""
	}
	groups := strings.Join(m.unclear, " or ")
	return fmt.Sprintf("RebootGroup %s may select it: its spec.nodeSelector or its slots cannot be read", groups)
}

// Contested returns the reason why a node gets no slot if several groups, the
// rivals, select it.
func Contested(rivals []string) string {
	return fmt.Sprintf("the RebootGroups %s select it, and none of them may reboot it until only one selects it",
		strings.Join(rivals, " and "))
}

// Stray returns why the node of a slot no longer belongs to the group, or may
// not belong to it. It returns the empty string if the node belongs to the
// group.
func (m Membership) Stray(group string, node *corev1.Node) string {
	switch owner, rivals := m.Group(node); {
	case owner == group:
		return m.Doubt(group)
	case slices.Contains(rivals, group):
		return Contested(rivals)
	case owner != "":
		return fmt.Sprintf("it belongs to RebootGroup %s now", owner)
	default:
		return fmt.Sprintf("RebootGroup %s no longer selects it", group)
	}
}

// HolderOf returns the group that has a slot for the node, or nil.
func HolderOf(node *corev1.Node, groups []*api.RebootGroup) *api.RebootGroup {
	for _, g := range groups {
		if slices.ContainsFunc(g.Status.Slots, func(s api.Slot) bool { return s.NodeUID == node.UID }) {
			return g
		}
	}
	return nil
}
