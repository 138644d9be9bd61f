package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// auditPolicy makes the API server record the requests of service accounts. It
// leaves out the control plane, whose components are users, or service accounts
// in kube-system.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    userGroups: ["system:serviceaccounts:kube-system"]
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`

// record is a request in the audit log.
type record struct {
	Verb string `json:"verb"`
	URI  string `json:"requestURI"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

func (r record) String() string {
	return strings.TrimSpace(r.Verb + " " + r.URI)
}

func (r record) forbidden() bool { return r.Annotations["authorization.k8s.io/decision"] == "forbid" }

// recordsOf returns the requests in the audit log that the account with this
// user name has made.
func recordsOf(log, username string) ([]record, error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var records []record
	for line := range bytes.Lines(content) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if r.User.Username == username {
			records = append(records, r)
		}
	}
	return records, nil
}

// permission is one verb on one resource in a role.
type permission struct {
	verb, group, resource, name string
	namespace                   string // empty for all namespaces
}

func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.group != "" {
		text += "." + p.group
	}
	if p.name != "" {
		text += " " + p.name
	}
	if p.namespace != "" {
		text += " in " + p.namespace
	}
	return text
}

// covers reports whether the server has allowed the request r, and the
// permission is one that allows it.
func (p permission) covers(r record) bool {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	return !r.forbidden() && p.verb == r.Verb && p.group == r.Object.Group && p.resource == resource &&
		(p.name == "" || p.name == r.Object.Name) && (p.namespace == "" || p.namespace == r.Object.Namespace)
}

// grantedTo returns the permissions of a service account. It collects them from
// the roles of the ClusterRoleBindings, and of the RoleBindings in the
// account's namespace, that name the account.
func grantedTo(ctx context.Context, client kubernetes.Interface, namespace, name string) ([]permission, error) {
	var granted []permission
	clusterwide, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, b := range clusterwide.Items {
		if !isBound(b.Subjects, namespace, name) {
			continue
		}
		role, err := client.RbacV1().ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		granted = append(granted, split(role.Rules, "")...)
	}
	local, err := client.RbacV1().RoleBindings(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, b := range local.Items {
		if !isBound(b.Subjects, namespace, name) {
			continue
		}
		role, err := client.RbacV1().Roles(namespace).Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		granted = append(granted, split(role.Rules, namespace)...)
	}
	return granted, nil
}

func isBound(subjects []rbacv1.Subject, namespace, name string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == name
	})
}

func split(rules []rbacv1.PolicyRule, namespace string) []permission {
	var permissions []permission
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						permissions = append(permissions, permission{verb, group, resource, name, namespace})
					}
				}
			}
		}
	}
	return permissions
}

// judge compares the calls of an account with its permissions. It returns a
// fault for each forbidden call and for each unused permission. seldom maps
// permissions that may be unused to the reasons: judge returns these as spared,
// not as faults.
func judge(granted []permission, calls []record, seldom map[string]string) (faults, spared []string) {
	forbidden := map[string]bool{}
	for _, r := range calls {
		if r.forbidden() {
			forbidden["missing: "+r.String()] = true
		}
	}
	for f := range forbidden {
		faults = append(faults, f)
	}
	for _, p := range granted {
		if slices.ContainsFunc(calls, p.covers) {
			continue
		}
		if reason, ok := seldom[p.String()]; ok {
			spared = append(spared, p.String()+": "+reason)
			continue
		}
		faults = append(faults, "unused: "+p.String())
	}
	slices.SortFunc(faults, cmp.Compare[string])
	return faults, spared
}
