package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A ServiceAccount is an identity with exactly the permissions of its rules, and
// the permissions that the server grants to every account, such as discovery.
type ServiceAccount struct {
	// Namespace and Name identify the account. The namespace must exist.
	Namespace, Name string
	// Rules are the account's permissions in Namespace.
	Rules []rbacv1.PolicyRule
	// ClusterRules are the account's permissions in all namespaces.
	ClusterRules []rbacv1.PolicyRule
}

// ServiceAccount creates the account, its roles and their bindings, waits until
// the server grants the rules, and returns a configuration with the account's
// token.
func (c *Cluster) ServiceAccount(ctx context.Context, a ServiceAccount) (*rest.Config, error) {
	meta := metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	accounts := c.client.CoreV1().ServiceAccounts(a.Namespace)
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	if err := errors.Join(c.grant(ctx, a), c.grantCluster(ctx, a)); err != nil {
		return nil, fmt.Errorf("creating the roles of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	for _, want := range a.attributes() {
		if err := c.awaitAllowed(ctx, want); err != nil {
			return nil, fmt.Errorf("waiting for the rights of service account %s/%s: %w", a.Namespace, a.Name, err)
		}
	}
	return c.As(ctx, a.Namespace, a.Name)
}

// As returns a configuration with a fresh token of an existing service account.
func (c *Cluster) As(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a token of service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	return config, nil
}

func (c *Cluster) grant(ctx context.Context, a ServiceAccount) error {
	if len(a.Rules) == 0 {
		return nil
	}
	meta, rbac := metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}, c.client.RbacV1()
	role := &rbacv1.Role{ObjectMeta: meta, Rules: a.Rules}
	if _, err := rbac.Roles(a.Namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: a.subjects(), RoleRef: roleRef("Role", a.Name)}
	_, err := rbac.RoleBindings(a.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	return err
}

func (c *Cluster) grantCluster(ctx context.Context, a ServiceAccount) error {
	if len(a.ClusterRules) == 0 {
		return nil
	}
	meta, rbac := metav1.ObjectMeta{Name: a.Namespace + ":" + a.Name}, c.client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: a.ClusterRules}
	if _, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: a.subjects(), RoleRef: roleRef("ClusterRole", meta.Name),
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}

func (a ServiceAccount) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// attributes returns one request for each rule. The request asks for one of the
// permissions of the rule. That is enough, because the server learns all
// permissions of a rule at once.
func (a ServiceAccount) attributes() []authorizationv1.SubjectAccessReviewSpec {
	var reviews []authorizationv1.SubjectAccessReviewSpec
	for _, r := range a.Rules {
		reviews = append(reviews, a.review(r, a.Namespace))
	}
	for _, r := range a.ClusterRules {
		reviews = append(reviews, a.review(r, ""))
	}
	return reviews
}

func (a ServiceAccount) review(r rbacv1.PolicyRule, namespace string) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + a.Namespace + ":" + a.Name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace, "system:authenticated"},
	}
	if len(r.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: firstOf(r.NonResourceURLs), Verb: firstOf(r.Verbs),
		}
		return spec
	}
	resource, subresource, _ := strings.Cut(firstOf(r.Resources), "/")
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: firstOf(r.Verbs), Group: firstOf(r.APIGroups), Name: firstOf(r.ResourceNames),
		Resource: resource, Subresource: subresource,
	}
	return spec
}

func firstOf(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func (c *Cluster) awaitAllowed(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) error {
	return poll(ctx, func(ctx context.Context) (bool, error) {
		review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	})
}
