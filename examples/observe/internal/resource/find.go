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

// A Resource identifies a resource of the API server, and says whether its
// objects have namespaces.
type Resource struct {
	schema.GroupVersionResource

	Kind       string
	Namespaced bool
}

// An UnknownError is the error for a name that is not the name of a resource on
// the server.
type UnknownError struct {
	Name string
	// Similar contains the names of resources that are most similar, at most
	// three. It is empty if no name is similar enough.
	Similar []string
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("the server has no resource %q", e.Name)
	if len(e.Similar) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(e.Similar, " or "))
	}
	return text
}

// An AmbiguousError is the error for a name that several resources have, if no
// resource is preferred to the others.
type AmbiguousError struct {
	Name string
	// Choices are unambiguous names, one for each resource: NAME.VERSION.GROUP.
	Choices []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("resource %q is ambiguous: choose %s", e.Name, strings.Join(e.Choices, " or "))
}

// A SilentError is the error for a name that cannot be resolved because the
// server of a group does not answer. That group could have the resource, or
// another resource of the same name.
type SilentError struct {
	Name string
	// Silent lists the API versions that could have the resource, and whose
	// servers do not answer.
	Silent []string
	// Choices are unambiguous names of the resources that the name may mean in
	// the groups that answer.
	Choices []string
}

func (e *SilentError) Error() string {
	text := fmt.Sprintf("the server of %s does not answer, so resource %q cannot be resolved",
		strings.Join(e.Silent, " and "), e.Name)
	if len(e.Choices) > 0 {
		text += fmt.Sprintf("; if you mean a resource of another group, choose %s", strings.Join(e.Choices, " or "))
	}
	return text
}

// Find returns the resource called name, which is NAME, NAME.GROUP or
// NAME.VERSION.GROUP. NAME is a plural, singular, kind or short name, in this
// order of preference. Of several groups, Find prefers the core group, and then
// the first of the groups of Kubernetes itself, like kubectl. Of several
// versions, it prefers the one that the server prefers.
//
// It returns an [UnknownError] if the server does not have the resource. It
// returns an [AmbiguousError] if the name means resources of several groups
// that are not part of Kubernetes, because the server sorts these by name only.
// It returns a [SilentError] if a group that does not answer could have the
// resource, or one that is preferred to it. Other errors say that the resource
// cannot be listed and watched, or that the server does not answer.
func Find(server discovery.DiscoveryInterface, name string) (Resource, error) {
	candidates, silent, err := served(server)
	if err != nil {
		return Resource{}, err
	}
	best := parse(name).best(candidates)
	if open := parse(name).open(best, silent); len(open) > 0 {
		return Resource{}, &SilentError{Name: name, Silent: open, Choices: choices(best)}
	}
	switch {
	case len(best) == 0:
		return Resource{}, &UnknownError{Name: name, Similar: similar(parse(name).name, candidates)}
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

// choices returns unambiguous names of the resources.
func choices(candidates []candidate) []string {
	texts := make([]string, len(candidates))
	for i, c := range candidates {
		texts[i] = strings.Join([]string{c.gvr.Resource, c.gvr.Version, c.gvr.Group}, ".")
	}
	slices.Sort(texts)
	return texts
}

// Names returns the names of all resources that can be observed, for
// completion. It leaves out the resources of groups that do not answer. A name
// is the plural, with the group if the plural alone is ambiguous or means
// another resource.
func Names(server discovery.DiscoveryInterface) ([]string, error) {
	candidates, _, err := served(server)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range candidates {
		if !slices.Contains(c.Verbs, "watch") {
			continue
		}
		name := c.Name
		if best := parse(name).best(candidates); len(best) > 1 || best[0].gvr.Group != c.gvr.Group {
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

// served returns the server's resources in the order of preference: first the
// core group, then the other groups in the server's order. Within a group the
// preferred version is first. It also returns the versions that do not answer.
// It sorts the lists itself, because discovery returns the lists of resources
// in no particular order.
func served(server discovery.DiscoveryInterface) ([]candidate, []schema.GroupVersion, error) {
	groups, lists, err := server.ServerGroupsAndResources()
	partial, isPartial := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	if err != nil && !isPartial {
		return nil, nil, fmt.Errorf("reading the server's resources: %w", err)
	}
	silent := map[schema.GroupVersion]error{}
	if isPartial {
		silent = partial.Groups
	}
	if err := checkComplete(groups, lists); err != nil {
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
	var candidates []candidate
	for _, group := range groups {
		versions := append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
		for i, v := range versions {
			if i > 0 && v == group.PreferredVersion {
				continue
			}
			gv := schema.GroupVersion{Group: group.Name, Version: v.Version}
			for _, r := range resources[v.GroupVersion] {
				if !strings.Contains(r.Name, "/") { // not a subresource
					candidates = append(candidates, candidate{r, gv.WithResource(r.Name)})
				}
			}
		}
	}
	return candidates, slices.SortedFunc(maps.Keys(silent), func(a, b schema.GroupVersion) int {
		return strings.Compare(a.String(), b.String())
	}), nil
}

// checkComplete returns an error if the core group or all other groups are
// missing. Every server has both, but client-go treats a status 404 for either
// as an answer without groups. Such a 404 may come from a proxy instead of the
// server.
func checkComplete(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) error {
	core := slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == "v1" && len(l.APIResources) > 0
	})
	hasGroups := slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name != "" })
	if !core || !hasGroups {
		return errors.New("reading the server's resources: the answer is incomplete, perhaps because a proxy " +
			"has answered: check that the kubeconfig names the API server")
	}
	return nil
}
