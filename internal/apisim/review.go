package apisim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	authentication = "authentication.k8s.io"
	authorization  = "authorization.k8s.io"
	rbac           = "rbac.authorization.k8s.io"
)

// reviews lists the resources whose objects are returned and not stored.
var reviews = []Resource{
	review(authentication, "selfsubjectreviews", "SelfSubjectReview"),
	review(authentication, "tokenreviews", "TokenReview"),
	{
		Group: authorization, Version: "v1", Resource: "localsubjectaccessreviews", Kind: "LocalSubjectAccessReview",
		Namespaced: true, builtin: builtin{typed: true, review: true},
	},
	review(authorization, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
	review(authorization, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
	review(authorization, "subjectaccessreviews", "SubjectAccessReview"),
}

func review(group, resource, kind string) Resource {
	return Resource{
		Group: group, Version: "v1", Resource: resource, Kind: kind, builtin: builtin{typed: true, review: true},
	}
}

func isReview(gvr schema.GroupVersionResource) bool {
	return gvr.Group == authentication || gvr.Group == authorization
}

// review answers a review. The review asks who the user of a token or a call
// is, or whether a user may make a request.
func (s *Server) review(r *request) (*output, error) {
	i := slices.IndexFunc(reviews, func(v Resource) bool { return v.GVR() == r.Resource })
	if i < 0 {
		return nil, notServed()
	}
	if r.Verb != "create" || r.Subresource != "" {
		return nil, apierrors.NewMethodNotSupported(reviews[i].groupResource(), r.Verb)
	}
	obj, err := decodeBody(&table{res: reviews[i]}, r)
	if err != nil {
		return nil, err
	}
	if err := s.answerReview(r, obj); err != nil {
		return nil, err
	}
	if obj, err = canonical(&reviews[i], obj); err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj)
	return &output{code: http.StatusCreated, body: body}, err
}

func (s *Server) answerReview(r *request, obj object) error {
	switch r.Resource.Resource {
	case "selfsubjectreviews":
		obj["status"] = object{"userInfo": object{"username": r.Client, "groups": []any{"system:authenticated"}}}
	case "selfsubjectrulesreviews": // Deny takes a function, whose rules cannot be listed
		wildcard := []any{"*"}
		obj["status"] = object{
			"resourceRules":    []any{object{"verbs": wildcard, "apiGroups": wildcard, "resources": wildcard}},
			"nonResourceRules": []any{object{"verbs": wildcard, "nonResourceURLs": wildcard}},
			"incomplete":       len(s.forbidden) > 0,
		}
	case "tokenreviews":
		return s.tokenReview(obj)
	default:
		return s.accessReview(r, obj)
	}
	return nil
}

const tokenPrefix = "apisim:" //nolint:gosec // it is how the simulated server's tokens begin, not one of them

// tokenReview accepts the tokens that this server has issued to
// ServiceAccounts.
func (s *Server) tokenReview(obj object) error {
	spec, _ := obj["spec"].(object)
	token := text(spec, "token")
	if token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	parts := strings.Split(strings.TrimPrefix(token, tokenPrefix), ":")
	if strings.HasPrefix(token, tokenPrefix) && len(parts) == 3 {
		sa := s.tables[serviceAccounts].objects[types.NamespacedName{Namespace: parts[0], Name: parts[1]}]
		if sa != nil && text(sa.meta(), "uid") == parts[2] {
			obj["status"] = object{"authenticated": true, "user": object{
				"username": "system:serviceaccount:" + parts[0] + ":" + parts[1], "uid": parts[2],
				"groups": []any{"system:serviceaccounts", "system:serviceaccounts:" + parts[0], "system:authenticated"},
			}}
			return nil
		}
	}
	obj["status"] = object{"user": object{}, "error": "[invalid bearer token]"}
	return nil
}

var serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}

// issueToken issues a token to a ServiceAccount. [Server.tokenReview] accepts
// it as long as the ServiceAccount exists.
func (x subresource) issueToken() (*output, error) {
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	var req authenticationv1.TokenRequest
	if err := json.Unmarshal(x.r.body, &req); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	seconds := int64(3600)
	if req.Spec.ExpirationSeconds != nil {
		seconds = *req.Spec.ExpirationSeconds
	}
	if seconds < 600 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: authentication, Kind: "TokenRequest"}, "",
			field.ErrorList{field.Invalid(field.NewPath("spec", "expirationSeconds"), seconds,
				"may not specify a duration less than 10 minutes")})
	}
	req.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: authentication + "/v1"}
	req.Name, req.Namespace, req.Spec.ExpirationSeconds = x.r.Name, x.r.Namespace, &seconds
	req.CreationTimestamp, req.UID = metav1.Now(), types.UID(text(current.meta(), "uid"))
	req.Status.Token = tokenPrefix + x.r.Namespace + ":" + x.r.Name + ":" + text(current.meta(), "uid")
	req.Status.ExpirationTimestamp = metav1.NewTime(req.CreationTimestamp.Add(time.Duration(seconds) * time.Second))
	body, err := json.Marshal(req)
	return &output{code: http.StatusCreated, body: body}, err
}

// accessReview answers whether a user may make a request. If the caller asks
// about itself, [Server.Deny] decides about resources, and requests for other
// paths are allowed. For other users, RBAC decides. The admin, and users in the
// group system:masters, may make all requests.
func (s *Server) accessReview(r *request, obj object) error {
	body, err := json.Marshal(obj["spec"])
	if err != nil {
		return err
	}
	var spec authorizationv1.SubjectAccessReviewSpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	isSelf := r.Resource.Resource == "selfsubjectaccessreviews"
	if err := checkAccessReview(r, &spec, isSelf); err != nil {
		return err
	}
	allowed := s.authorized(r, &spec, isSelf)
	obj["status"] = object{"allowed": allowed}
	return nil
}

func checkAccessReview(r *request, spec *authorizationv1.SubjectAccessReviewSpec, isSelf bool) error {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if (spec.ResourceAttributes == nil) == (spec.NonResourceAttributes == nil) {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), nil,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if !isSelf && spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), "", "at least one of user or group must be specified"))
	}
	if a := spec.ResourceAttributes; r.Resource.Resource == "localsubjectaccessreviews" && a != nil &&
		a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), a.Namespace,
			"must match metadata.namespace"))
	}
	if len(errs) == 0 {
		return nil
	}
	i := slices.IndexFunc(reviews, func(v Resource) bool { return v.GVR() == r.Resource })
	return apierrors.NewInvalid(reviews[i].groupKind(), "", errs)
}

func (s *Server) authorized(r *request, spec *authorizationv1.SubjectAccessReviewSpec, isSelf bool) bool {
	if slices.Contains(spec.Groups, "system:masters") || isSelf && r.Client == admin {
		return true
	}
	if a := spec.ResourceAttributes; isSelf && a != nil {
		call := Call{
			Client: r.Client, Incarnation: r.Incarnation, Verb: a.Verb, Namespace: a.Namespace, Name: a.Name,
			Resource:    schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource},
			Subresource: a.Subresource,
		}
		return !slices.ContainsFunc(s.forbidden, func(deny func(Call) error) bool { return deny(call) != nil })
	}
	return isSelf || s.bound(spec)
}

// bound reports whether a role that is bound to the user, or to one of its
// groups, allows the request.
func (s *store) bound(spec *authorizationv1.SubjectAccessReviewSpec) bool {
	namespace := ""
	if a := spec.ResourceAttributes; a != nil {
		namespace = a.Namespace
	}
	for _, kind := range []string{"clusterrolebindings", "rolebindings"} {
		for _, o := range s.tables[schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: kind}].objects {
			var b rbacv1.RoleBinding
			if o.key.Namespace != "" && o.key.Namespace != namespace || json.Unmarshal(o.raw, &b) != nil {
				continue
			}
			bound := slices.ContainsFunc(b.Subjects, func(sub rbacv1.Subject) bool { return isSubject(sub, spec, namespace) })
			if bound && slices.ContainsFunc(s.rules(&b), func(p rbacv1.PolicyRule) bool { return allows(p, spec) }) {
				return true
			}
		}
	}
	return false
}

func isSubject(sub rbacv1.Subject, spec *authorizationv1.SubjectAccessReviewSpec, namespace string) bool {
	switch sub.Kind {
	case rbacv1.UserKind:
		return sub.Name == spec.User
	case rbacv1.GroupKind:
		return slices.Contains(spec.Groups, sub.Name)
	case rbacv1.ServiceAccountKind:
		if sub.Namespace != "" {
			namespace = sub.Namespace
		}
		return spec.User == "system:serviceaccount:"+namespace+":"+sub.Name
	}
	return false
}

func (s *store) rules(b *rbacv1.RoleBinding) []rbacv1.PolicyRule {
	gvr := schema.GroupVersionResource{Group: rbac, Version: "v1", Resource: "clusterroles"}
	key := types.NamespacedName{Name: b.RoleRef.Name}
	if b.RoleRef.Kind == "Role" {
		gvr.Resource, key.Namespace = "roles", b.Namespace
	}
	var role rbacv1.Role
	if o := s.tables[gvr].objects[key]; o == nil || json.Unmarshal(o.raw, &role) != nil {
		return nil
	}
	return role.Rules
}

func allows(p rbacv1.PolicyRule, spec *authorizationv1.SubjectAccessReviewSpec) bool {
	matches := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	if n := spec.NonResourceAttributes; n != nil {
		return matches(p.Verbs, n.Verb) && slices.ContainsFunc(p.NonResourceURLs, func(url string) bool {
			prefix, wild := strings.CutSuffix(url, "*")
			return url == n.Path || wild && strings.HasPrefix(n.Path, prefix)
		})
	}
	a := spec.ResourceAttributes
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return matches(p.Verbs, a.Verb) && matches(p.APIGroups, a.Group) &&
		(matches(p.Resources, resource) || a.Subresource != "" && slices.Contains(p.Resources, "*/"+a.Subresource)) &&
		(len(p.ResourceNames) == 0 || slices.Contains(p.ResourceNames, a.Name))
}
