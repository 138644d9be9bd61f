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

// FencingPolicy returns the admission policy of [fence.YAML] for p, as a
// manifest for kubectl. Assign it to [Program.FencingPolicy]. The policy covers
// every resource that p.Needs allow a replica to write in the cluster of the
// Lease, except Events and reviews, which every replica writes. serviceAccount
// is the account of the replicas' Pods as namespace/name, and the Lease is in
// its namespace. Comments in the manifest name the writes to other clusters,
// which it does not cover.
//
// FencingPolicy returns an error if the service account has no namespace or no
// name, if p.Needs are malformed, or if they allow no write that the policy can
// cover. It also returns the errors of [fence.YAML].
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
	resources, unfenced := writableResources(permissions)
	if len(resources) == 0 {
		return "", fmt.Errorf("making the fencing policy: %w", option.Wrong("operator.Program.Needs", p.Needs,
			"must include a write in the cluster of the Lease"))
	}
	shards, condition := p.Replicas != LeaderElected, "holds the Lease"
	if shards {
		condition = "is a member"
	}
	manifest, err := fence.YAML(fence.Options{
		Namespace: namespace, Lease: p.Name, ServiceAccount: account, Resources: resources, Shards: shards,
	})
	if err != nil {
		return "", err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "# The API server refuses what a replica of %s writes with the account %s unless it %s.\n",
		p.Name, serviceAccount, condition)
	for _, e := range unfenced {
		fmt.Fprintf(&head, "# Not fenced, as the Lease is in another cluster: %s on %s\n", e, e.cluster)
	}
	return head.String() + manifest, nil
}

// writableResources returns the resources that the leader may write in the
// cluster of its Lease, in the form of [fence.Options]. unfenced are the
// leader's permissions to write in other clusters. Events and reviews are left
// out, because every replica writes them.
func writableResources(permissions []permission) (resources []string, unfenced []permission) {
	paths := map[string]bool{}
	for _, p := range permissions {
		switch {
		case !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection", "*"}, p.Verb),
			p.Resource == "events" && (p.Group == "" || p.Group == eventsv1.GroupName),
			p.Group == authenticationv1.GroupName, p.Group == authorizationv1.GroupName:
		case p.cluster != first:
			unfenced = append(unfenced, p)
		default:
			paths[p.path()] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		whole, _, isSub := strings.Cut(path, "/")
		if !isSub || !paths[whole] { // a resource includes its subresources
			resources = append(resources, path)
		}
	}
	return resources, unfenced
}
