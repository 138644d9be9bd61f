package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader/fence"
)

// FencingPolicy is for [Program.FencingPolicy]: it returns, as a manifest for
// kubectl, the policy of [fence.YAML] for everything that Needs allow a replica
// of p to write. The replicas' Pods use serviceAccount, as namespace/name, and
// the Lease is in its namespace. Comments name the writes that the policy does
// not cover.
//
// Errors: a service account without a namespace; no write among Needs; those of
// [fence.YAML].
func FencingPolicy(p Program, serviceAccount string) (string, error) {
	namespace, account, found := strings.Cut(serviceAccount, "/")
	if !found || namespace == "" || account == "" {
		return "", fmt.Errorf("making the fencing policy: the service account is %q: must be its namespace and its name, "+
			"such as shop/website", serviceAccount)
	}
	permissions, err := parseNeeds(p.Needs, p.clusterNames())
	if err != nil {
		return "", fmt.Errorf("making the fencing policy: %w", err)
	}
	resources, elsewhere := written(permissions)
	if len(resources) == 0 {
		return "", fmt.Errorf("making the fencing policy: %w", option.Wrong("operator.Program.Needs", p.Needs,
			"must have a write in the cluster of the Lease"))
	}
	shards, lives := p.Replicas != LeaderElected, "holds the Lease"
	if shards {
		lives = "is a member"
	}
	manifest, err := fence.YAML(fence.Options{
		Namespace: namespace, Lease: p.Name, ServiceAccount: account, Resources: resources, Shards: shards,
	})
	if err != nil {
		return "", err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "# The API server refuses what a replica of %s writes with the account %s unless it %s.\n",
		p.Name, serviceAccount, lives)
	for _, e := range elsewhere {
		fmt.Fprintf(&head, "# Not fenced, as the Lease is in another cluster: %s on %s\n", e, e.cluster)
	}
	return head.String() + manifest, nil
}

// written returns the resources that permissions let the leader write in the
// cluster of its Lease, as [fence.Options] has them, and its writes elsewhere.
// Events and reviews are those of every replica.
func written(permissions []permission) (resources []string, elsewhere []permission) {
	all := map[string]bool{}
	for _, p := range permissions {
		switch {
		case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection", "*"}, p.Verb),
			p.Resource == "events" && (p.Group == "" || p.Group == eventsv1.GroupName),
			p.Group == authenticationv1.GroupName, p.Group == authorizationv1.GroupName:
		case p.cluster != first:
			elsewhere = append(elsewhere, p)
		default:
			all[p.path()] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		whole, _, isSub := strings.Cut(path, "/")
		if !isSub || !all[whole] { // one without a subresource stands for all of them
			resources = append(resources, path)
		}
	}
	return resources, elsewhere
}
