package resource

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// A Resource is how objects of one kind are read.
type Resource struct {
	schema.GroupVersionResource

	Kind       string
	Namespaced bool
}

// An UnknownError says that the server has no such resource.
type UnknownError struct {
	Name string
	// Near are the names that look most like it.
	Near []string
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("the server has no resource %q", e.Name)
	if len(e.Near) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(e.Near, " or "))
	}
	return text
}

// An AmbiguousError says that a name means several resources, and that nothing
// tells which.
type AmbiguousError struct {
	Name string
	// Choices are names that mean one each: NAME.VERSION.GROUP.
	Choices []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("resource %q is ambiguous: choose %s", e.Name, strings.Join(e.Choices, " or "))
}

// A SilentError says that a group does not answer which could have the resource, or
// another of the same name: nothing is known of what the name means.
type SilentError struct {
	Name string
	// Silent are the versions that do not answer.
	Silent []string
	// Choices are the resources that do, by names that mean one each.
	Choices []string
}

func (e *SilentError) Error() string {
	text := fmt.Sprintf("the server of %s does not answer: what resource %q means is not known",
		strings.Join(e.Silent, " and "), e.Name)
	if len(e.Choices) > 0 {
		text += fmt.Sprintf("; if it is one of those that answer, choose %s", strings.Join(e.Choices, " or "))
	}
	return text
}

// Find returns the resource called name: NAME, NAME.GROUP or
// NAME.VERSION.GROUP, where NAME is plural, singular, kind or short name, in this
// order. Of several groups, the core group is meant, else the first of
// Kubernetes' own, as kubectl has it; of several versions, the one that the
// server prefers.
//
// Errors: [UnknownError]; [AmbiguousError], if the name means resources of
// several groups that are not Kubernetes' own: which the server lists first is a
// matter of their names; [SilentError], if a group whose own server does not answer
// could have the resource or one that goes before it. The resource cannot be listed and
// watched; the server does not answer.
func Find(server discovery.DiscoveryInterface, name string) (Resource, error) {
	all, silent, err := served(server)
	if err != nil {
		return Resource{}, err
	}
	best := parse(name).best(all)
	if open := parse(name).open(best, silent); len(open) > 0 {
		return Resource{}, &SilentError{Name: name, Silent: open, Choices: choices(best)}
	}
	switch {
	case len(best) == 0:
		return Resource{}, &UnknownError{Name: name, Near: near(parse(name).name, all)}
	case len(best) > 1:
		return Resource{}, &AmbiguousError{Name: name, Choices: choices(best)}
	}
	found := best[0]
	if !slices.Contains(found.Verbs, "list") || !slices.Contains(found.Verbs, "watch") {
		return Resource{}, fmt.Errorf("resource %q cannot be observed: the server does not list and watch %s",
			name, found.gvr.GroupResource())
	}
	return Resource{GroupVersionResource: found.gvr, Kind: found.Kind, Namespaced: found.Namespaced}, nil
}

// choices are names of resources that mean nothing else.
func choices(all []candidate) []string {
	texts := make([]string, len(all))
	for i, c := range all {
		texts[i] = strings.Join([]string{c.gvr.Resource, c.gvr.Version, c.gvr.Group}, ".")
	}
	slices.Sort(texts)
	return texts
}

// Names returns the names of everything that can be observed, for completion: the
// plural name, with the group if the plural alone means another resource or is
// ambiguous.
func Names(server discovery.DiscoveryInterface) ([]string, error) {
	all, _, err := served(server)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range all {
		if !slices.Contains(c.Verbs, "watch") {
			continue
		}
		name := c.Name
		if best := parse(name).best(all); len(best) > 1 || best[0].gvr.Group != c.gvr.Group {
			name = c.gvr.GroupResource().String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// A candidate is a resource as the server describes it.
type candidate struct {
	metav1.APIResource

	gvr schema.GroupVersionResource
}

// served returns the server's resources, in the order of preference: the core group
// first, then the groups in the server's order, of each the preferred version
// first, and the versions of which it says nothing. The lists themselves come in no
// order.
func served(server discovery.DiscoveryInterface) ([]candidate, []schema.GroupVersion, error) {
	groups, lists, err := server.ServerGroupsAndResources()
	partial, some := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	if err != nil && !some {
		return nil, nil, fmt.Errorf("asking the server for its resources: %w", err)
	}
	silent := map[schema.GroupVersion]error{}
	if some {
		silent = partial.Groups
	}
	if err := complete(groups, lists); err != nil {
		return nil, nil, err
	}
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = list.APIResources
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *metav1.APIGroup) int {
		return cmp.Compare(min(len(a.Name), 1), min(len(b.Name), 1))
	})
	var all []candidate
	for _, group := range groups {
		versions := append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
		for i, v := range versions {
			if i > 0 && v == group.PreferredVersion {
				continue
			}
			gv := schema.GroupVersion{Group: group.Name, Version: v.Version}
			for _, r := range resources[v.GroupVersion] {
				if !strings.Contains(r.Name, "/") { // a subresource
					all = append(all, candidate{r, gv.WithResource(r.Name)})
				}
			}
		}
	}
	return all, slices.SortedFunc(maps.Keys(silent), func(a, b schema.GroupVersion) int {
		return strings.Compare(a.String(), b.String())
	}), nil
}

// complete returns an error if the core group or all other groups are missing.
// client-go takes a status 404 for either as an answer without groups, although every
// server has both: the page of a proxy says nothing about them.
func complete(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) error {
	core := slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == "v1" && len(l.APIResources) > 0
	})
	others := slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name != "" })
	if !core || !others {
		return errors.New("asking the server for its resources: the answer is not complete, something in between may " +
			"have given it: check that the kubeconfig names the API server")
	}
	return nil
}
