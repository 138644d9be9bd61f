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

// Granted are the rights that the Roles and ClusterRoles of manifests grant.
// nil grants everything.
type Granted []role

// role is a Role or a ClusterRole.
type role struct {
	title   string // "ClusterRole shop in deploy/rbac.yaml"
	cluster bool
	rules   []rbacv1.PolicyRule
}

// Read reads the Roles and ClusterRoles of YAML files.
//
// Errors: a file that cannot be read, or that has neither.
func Read(files []string) (Granted, error) {
	var all Granted
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		roles, err := read(name, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all = append(all, roles...)
	}
	return all, nil
}

func read(name string, file io.Reader) (Granted, error) {
	var all Granted
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var r rbacv1.ClusterRole
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if r.Kind == "Role" || r.Kind == "ClusterRole" {
			title := r.Kind + " " + r.Name + " in " + name
			all = append(all, role{title: title, cluster: r.Kind == "ClusterRole", rules: r.Rules})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no Role and no ClusterRole")
	}
	return all, nil
}

// Missing returns the permission to add for a call to be granted, or "" if it
// is granted. A Role grants nothing outside of namespaces; names count for
// calls that have one, also by the field selector of a list or a watch.
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
		where := "a ClusterRole"
		if c.Namespace != "" {
			where = "a Role in namespace " + c.Namespace
		}
		text += fmt.Sprintf("\n    or, for this object alone, to %s\n      - {apiGroups: [%q], resources: [%q], "+
			"resourceNames: [%q], verbs: [%q]}", where, p.group, p.resource, c.Name, p.verb)
	}
	return text
}

// words describes a permission, with the object of the call.
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

// Unused returns granted permissions that were not needed. It leaves out those
// that no run shows: Events and Leases, since most cases have neither a
// recorder nor several replicas, and the finalizers of owners, which the server
// itself checks. except lists further permissions that may be granted, as "verb
// resource.group".
func (g Granted) Unused(needed Set, except []string) []string {
	var all []string
	for _, r := range g {
		for _, rule := range r.rules {
			for _, have := range permissions(&rule) {
				unseen := have.resource == "events" || have.resource == "leases" ||
					strings.HasSuffix(have.resource, "/finalizers")
				if !unseen && !slices.Contains(except, have.String()) && !needed.some(have.covers) {
					all = append(all, have.String()+" ("+r.title+")")
				}
			}
		}
	}
	return all
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
	var all []permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, permission{verb: verb, group: group, resource: resource})
			}
		}
	}
	return all
}

func (p permission) covers(o permission) bool {
	same := func(have, want string) bool { return have == want || have == rbacv1.VerbAll }
	_, subresource, _ := strings.Cut(o.resource, "/")
	every := subresource != "" && p.resource == "*/"+subresource
	return same(p.verb, o.verb) && same(p.group, o.group) && (same(p.resource, o.resource) || every)
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	return text
}
