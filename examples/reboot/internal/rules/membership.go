package rules

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// A Membership maps nodes to the group that they belong to: the first by name of those
// that select it, and [api.DefaultName] last. A group with a selector that cannot
// be read, or that is being deleted, selects nothing.
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

// Selector returns the group's node selector: everything when there is none.
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

// Group returns the name of the group that node belongs to, or "", and the names
// of further groups that select it, [api.DefaultName] aside.
func (m Membership) Group(node *corev1.Node) (group string, others []string) {
	set := labels.Set(node.Labels)
	for _, g := range m.groups {
		switch {
		case !g.selector.Matches(set):
		case group == "":
			group = g.name
		case g.name != api.DefaultName:
			others = append(others, g.name)
		}
	}
	return group, others
}
