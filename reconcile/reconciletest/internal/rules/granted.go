package rules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Granted contains the Roles and ClusterRoles of manifests. They determine the
// rights of a program. A nil Granted grants all rights.
type Granted []role

// role is a Role or a ClusterRole.
type role struct {
	title   string // such as "ClusterRole shop in deploy/rbac.yaml"
	cluster bool
	rules   []rbacv1.PolicyRule
}

// Read reads the Roles and ClusterRoles of YAML files.
//
// Read returns an error if a file cannot be read, or if it has neither a Role
// nor a ClusterRole.
func Read(files []string) (Granted, error) {
	var granted Granted
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		roles, err := read(name, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		granted = append(granted, roles...)
	}
	return granted, nil
}

func read(name string, file io.Reader) (Granted, error) {
	var granted Granted
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var r rbacv1.ClusterRole
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if r.Kind == "Role" || r.Kind == "ClusterRole" {
			title := r.Kind + " " + r.Name + " in " + name
			granted = append(granted, role{title: title, cluster: r.Kind == "ClusterRole", rules: r.Rules})
		}
	}
	if len(granted) == 0 {
		return nil, errors.New("the file has neither a Role nor a ClusterRole")
	}
	return granted, nil
}

// Missing returns a text that says which rule to add for a call, or "" if the
// call is granted. A Role is taken to grant calls in every namespace, but no
// calls outside of namespaces. resourceNames are compared with the name of the
// call. The name of a list or a watch may be in its field selector.
func (g Granted) Missing(c apisim.Call) string {
	p := permissionOf(c)
	best := ""
	for _, r := range g {
		usable := r.cluster || c.Namespace != ""
		if usable && slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool { return allows(&rule, p, c.Name) }) {
			return ""
		}
		if usable && best == "" {
			best = "the rules of " + r.title
		}
	}
	if len(g) == 0 {
		return ""
	}
	if best == "" {
		best = "a ClusterRole"
	}
	text := fmt.Sprintf("it may not %s: add to %s\n      - {apiGroups: [%q], resources: [%q], verbs: [%q]}",
		words(c, p), best, p.group, p.resource, p.verb)
	if c.Name != "" && (p.verb == "list" || p.verb == "watch") {
		scope := "a ClusterRole"
		if c.Namespace != "" {
			scope = "a Role in namespace " + c.Namespace
		}
		text += fmt.Sprintf("\n    or, for this object alone, to %s\n      - {apiGroups: [%q], resources: [%q], "+
			"resourceNames: [%q], verbs: [%q]}", scope, p.group, p.resource, c.Name, p.verb)
	}
	return text
}

// words describes a permission and the object of the call.
func words(c apisim.Call, p permission) string {
	switch {
	case c.Namespace == "" && c.Name == "":
		return p.String() + " of all namespaces"
	case c.Namespace == "":
		return p.String() + " " + c.Name
	}
	return p.String() + " " + c.Namespace + "/" + c.Name
}

func allows(rule *rbacv1.PolicyRule, p permission, name string) bool {
	named := len(rule.ResourceNames) == 0 || p.verb != "create" && slices.Contains(rule.ResourceNames, name)
	return named && slices.ContainsFunc(permissions(rule), func(have permission) bool { return have.covers(p) })
}

// Unused returns granted permissions that were not needed. It leaves out
// permissions whose need the runs do not show: Events and Leases, since most
// cases have neither a recorder nor several replicas, and the finalizers of
// owners, which the server itself checks. excluded lists further permissions to
// leave out, in the form "verb resource.group".
func (g Granted) Unused(needed Set, excluded []string) []string {
	var unused []string
	for _, r := range g {
		for _, rule := range r.rules {
			for _, have := range permissions(&rule) {
				unseen := have.resource == "events" || have.resource == "leases" ||
					strings.HasSuffix(have.resource, "/finalizers")
				if !unseen && !slices.Contains(excluded, have.String()) && !needed.contains(have.covers) {
					unused = append(unused, have.String()+" ("+r.title+")")
				}
			}
		}
	}
	return unused
}

// permission is one verb on one resource.
type permission struct{ verb, group, resource string }

func permissionOf(c apisim.Call) permission {
	resource := c.Resource.Resource
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return permission{verb: c.Verb, group: c.Resource.Group, resource: resource}
}

func permissions(rule *rbacv1.PolicyRule) []permission {
	var list []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				list = append(list, permission{verb: verb, group: group, resource: resource})
			}
		}
	}
	return list
}

func (p permission) covers(o permission) bool {
	matches := func(have, want string) bool { return have == want || have == rbacv1.VerbAll }
	_, subresource, _ := strings.Cut(o.resource, "/")
	anyParent := subresource != "" && p.resource == "*/"+subresource
	return matches(p.verb, o.verb) && matches(p.group, o.group) && (matches(p.resource, o.resource) || anyParent)
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	return text
}
