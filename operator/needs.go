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

// permission is one verb on one resource of one cluster, in one namespace if
// that is set.
type permission struct {
	authorizationv1.ResourceAttributes
	cluster string
	// mayBeMissing says that the namespace may not exist, or not grant it: see
	// tenants.
	mayBeMissing bool
	// byName says that it is needed for names that are not known at the start,
	// so the server cannot be asked for it.
	byName  bool
	without string // what there is not without it; empty if the program cannot do without it
}

// path is the resource with its group and subresource.
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

// String reads like the need, such as "patch deployments.apps in namespace
// shop". It does not name the cluster: the error about it does.
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

// role names the object that grants the permission.
func (p permission) role() string {
	if p.Namespace != "" {
		return "a Role in " + p.Namespace
	}
	return "a ClusterRole"
}

// parseNeeds reads needs as [Program.Needs] describes them. clusters are the names
// that they may use.
func parseNeeds(needs, clusters []string) ([]permission, error) {
	var all []permission
	var errs []error
	for i, need := range needs {
		permissions, err := parseNeed(need, clusters)
		if err != nil {
			errs = append(errs, option.Wrong(fmt.Sprintf("operator.Program.Needs[%d]", i), need, "%w", err))
		}
		all = append(all, permissions...)
	}
	return all, errors.Join(errs...)
}

var errNeed = errors.New("must be verbs, a resource and perhaps a name, a namespace and a cluster, such as " +
	`"list,watch pods", "get secrets in kube-system" or "list,watch secrets by name"`)

// resources are a resource, perhaps a group and perhaps a subresource. Paths,
// such as /metrics, are none.
var resources = regexp.MustCompile(`^([a-z0-9-]+|\*)(?:\.([a-z0-9.-]+|\*))?(?:/([a-z0-9-]+|\*))?$`)

// parseNeed reads a need: verbs, a resource, and then, each at most once, a
// name or "by name", "in" a namespace and "on" a cluster. It returns a
// permission for each verb.
//
// Errors: errNeed, to which the caller adds the need; a cluster that is not
// declared.
func parseNeed(need string, clusters []string) ([]permission, error) {
	words := strings.Split(need, " ")
	if len(words) < 2 || slices.Contains(words, "") {
		return nil, errNeed
	}
	named := resources.FindStringSubmatch(words[1])
	if named == nil {
		return nil, errNeed
	}
	of := permission{ResourceAttributes: authorizationv1.ResourceAttributes{
		Group: named[2], Resource: named[1], Subresource: named[3],
	}}
	rest := words[2:]
	if len(rest)%2 == 1 {
		of.Name, rest = rest[0], rest[1:]
	}
	for ; len(rest) > 0; rest = rest[2:] {
		switch {
		case rest[0] == "by" && rest[1] == "name" && of.Name == "" && !of.byName:
			of.byName = true
		case rest[0] == "in" && of.Namespace == "":
			of.Namespace, of.mayBeMissing = strings.CutSuffix(rest[1], "?")
		case rest[0] == "on" && of.cluster == first:
			of.cluster = rest[1]
		default:
			return nil, errNeed
		}
	}
	switch {
	case of.Name == "in", of.Name == "on", of.Name == "by", of.mayBeMissing && of.Namespace == "":
		return nil, errNeed
	case of.cluster != first && !slices.Contains(clusters, of.cluster):
		return nil, fmt.Errorf("there is no cluster %q: name it in Program.Clusters", of.cluster)
	}
	var all []permission
	for verb := range strings.SplitSeq(words[0], ",") {
		if of.Verb = verb; verb == "" {
			return nil, errNeed
		}
		all = append(all, of)
	}
	return all, nil
}

func (p permission) isOfEvents() bool {
	return p.Group == eventsv1.GroupName && p.Resource == "events" && p.cluster == first
}

// first is the name of the cluster that --kubeconfig names, beside those of
// Program.Clusters.
const first = ""

// inCluster says of which cluster an error is, unless that is the first.
func inCluster(name string, err error) error {
	if name == first || err == nil {
		return err
	}
	return fmt.Errorf("cluster %s of --%s: %w", name, clusterFlag(name), err)
}

func clusterFlag(name string) string { return name + "-kubeconfig" }
