package operator

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/homeostat/homeostat/internal/option"
)

// permission is one verb on one resource of one cluster, in one namespace or in
// all.
type permission struct {
	authorizationv1.ResourceAttributes
	cluster string
	// mayBeMissing reports whether the program works even if the namespace does
	// not exist or does not grant the permission; see tenants.
	mayBeMissing bool
	// byName reports whether the permission is needed only for names that
	// are not known at the start. Such a permission cannot be checked.
	byName bool
	// consequence is the effect of a missing permission that the program can do
	// without, such as "Events are not recorded". It is empty for a
	// requirement.
	consequence string
}

// path returns the resource with its group and subresource, such as
// "widgets.example.com/status".
func (p permission) path() string {
	resource := p.Resource
	if p.Group != "" {
		resource += "." + p.Group
	}
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	return resource
}

// String returns the permission in the form of a need, such as "patch
// deployments.apps in namespace shop". It does not contain the cluster; the
// errors add it.
func (p permission) String() string {
	resource := p.path()
	if p.Name != "" {
		resource += " " + p.Name
	}
	if p.byName {
		resource += " by name"
	}
	if p.Namespace != "" {
		resource += " in namespace " + p.Namespace
	}
	return p.Verb + " " + resource
}

// role returns the kind of object that can grant the permission, such as "a
// ClusterRole".
func (p permission) role() string {
	if p.Namespace != "" {
		return "a Role in " + p.Namespace
	}
	return "a ClusterRole"
}

// parseNeeds returns the permissions of needs, whose form [Program.Needs]
// describes. clusters are the names that may follow "on".
func parseNeeds(needs, clusters []string) ([]permission, error) {
	var parsed []permission
	var errs []error
	for i, need := range needs {
		permissions, err := parseNeed(need, clusters)
		if err != nil {
			errs = append(errs, option.Wrong(fmt.Sprintf("operator.Program.Needs[%d]", i), need, "%w", err))
		}
		parsed = append(parsed, permissions...)
	}
	return parsed, errors.Join(errs...)
}

var errNeed = errors.New("must be verbs, a resource and perhaps a name, a namespace and a cluster, such as " +
	`"list,watch pods", "get secrets in kube-system" or "list,watch secrets by name"`)

// resources matches a resource with an optional group and subresource, such as
// "widgets.example.com/status". It does not match paths, such as "/metrics".
var resources = regexp.MustCompile(`^([a-z0-9-]+|\*)(?:\.([a-z0-9.-]+|\*))?(?:/([a-z0-9-]+|\*))?$`)

// parseNeed returns a permission for each verb of a need. A need begins with
// the verbs and the resource. Up to three parts can follow: a name or "by
// name", "in" and a namespace, and "on" and a cluster.
//
// It returns errNeed if the need does not have this form, and a different error
// if the cluster is not in clusters.
func parseNeed(need string, clusters []string) ([]permission, error) {
	words := strings.Split(need, " ")
	if len(words) < 2 || slices.Contains(words, "") {
		return nil, errNeed
	}
	named := resources.FindStringSubmatch(words[1])
	if named == nil {
		return nil, errNeed
	}
	parsed := permission{ResourceAttributes: authorizationv1.ResourceAttributes{
		Group: named[2], Resource: named[1], Subresource: named[3],
	}}
	rest := words[2:]
	if len(rest)%2 == 1 {
		parsed.Name, rest = rest[0], rest[1:]
	}
	for ; len(rest) > 0; rest = rest[2:] {
		switch {
		case rest[0] == "by" && rest[1] == "name" && parsed.Name == "" && !parsed.byName:
			parsed.byName = true
		case rest[0] == "in" && parsed.Namespace == "":
			parsed.Namespace, parsed.mayBeMissing = strings.CutSuffix(rest[1], "?")
		case rest[0] == "on" && parsed.cluster == first:
			parsed.cluster = rest[1]
		default:
			return nil, errNeed
		}
	}
	switch {
	case parsed.Name == "in", parsed.Name == "on", parsed.Name == "by", parsed.mayBeMissing && parsed.Namespace == "":
		return nil, errNeed
	case parsed.cluster != first && !slices.Contains(clusters, parsed.cluster):
		return nil, fmt.Errorf("there is no cluster %q: name it in Program.Clusters", parsed.cluster)
	}
	var list []permission
	for verb := range strings.SplitSeq(words[0], ",") {
		if parsed.Verb = verb; verb == "" {
			return nil, errNeed
		}
		list = append(list, parsed)
	}
	return list, nil
}

func (p permission) isOfEvents() bool {
	return p.Group == eventsv1.GroupName && p.Resource == "events" && p.cluster == first
}

// first is the name of the cluster of --kubeconfig. The names of
// Program.Clusters are not empty.
const first = ""

// inCluster adds the name of the cluster to err, unless it is the first
// cluster.
func inCluster(name string, err error) error {
	if name == first || err == nil {
		return err
	}
	return fmt.Errorf("cluster %s of --%s: %w", name, clusterFlag(name), err)
}

func clusterFlag(name string) string { return name + "-kubeconfig" }
