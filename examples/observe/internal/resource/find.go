package resource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// A Resource is what objects of one kind are read by.
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

// Find returns the resource called name: NAME, NAME.GROUP or
// NAME.VERSION.GROUP, where NAME is plural, singular, kind or short name. Of
// several, the one of the core group is meant, else the one that the server
// lists first.
//
// Errors: [UnknownError]; the resource cannot be listed and watched; the server
// does not answer. A group whose own server is away is passed over.
func Find(server discovery.DiscoveryInterface, name string) (Resource, error) {
	all, err := served(server)
	if err != nil {
		return Resource{}, err
	}
	wanted := parse(name)
	best, rank := candidate{}, 0
	for _, c := range all {
		if r := wanted.rank(c); r > rank {
			best, rank = c, r
		}
	}
	switch {
	case rank == 0:
		return Resource{}, &UnknownError{Name: name, Near: near(wanted.name, all)}
	case !slices.Contains(best.Verbs, "list") || !slices.Contains(best.Verbs, "watch"):
		return Resource{}, fmt.Errorf("resource %q cannot be observed: the server does not list and watch %s",
			name, best.gvr.GroupResource())
	}
	return Resource{GroupVersionResource: best.gvr, Kind: best.Kind, Namespaced: best.Namespaced}, nil
}

// Names returns the plural names of everything that can be observed, for
// completion: with the group if the name alone means another one.
func Names(server discovery.DiscoveryInterface) ([]string, error) {
	all, err := served(server)
	if err != nil {
		return nil, err
	}
	var names []string
	seen := map[string]schema.GroupResource{}
	for _, c := range all {
		group, known := seen[c.Name]
		switch {
		case !slices.Contains(c.Verbs, "watch"):
		case !known:
			seen[c.Name] = c.gvr.GroupResource()
			names = append(names, c.Name)
		case group != c.gvr.GroupResource():
			names = append(names, c.gvr.GroupResource().String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// A candidate is a resource as the server describes it.
type candidate struct {
	metav1.APIResource

	gvr schema.GroupVersionResource
}

func served(server discovery.DiscoveryInterface) ([]candidate, error) {
	_, lists, err := server.ServerGroupsAndResources()
	if _, partial := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); err != nil && !partial {
		return nil, fmt.Errorf("asking the server for its resources: %w", err)
	}
	var all []candidate
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no client could ask for it
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") { // a subresource
				all = append(all, candidate{r, version.WithResource(r.Name)})
			}
		}
	}
	// The core group comes first for kubectl, too: events are its events.
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Compare(min(len(a.gvr.Group), 1), min(len(b.gvr.Group), 1))
	})
	return all, nil
}
