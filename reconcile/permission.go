package reconcile

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// permission is what writes of a key lack: a verb for a resource, in namespaces
// or at the cluster scope.
type permission struct {
	verb, resource string   // such as "patch" and "deployments.apps/scale"
	account        string   // the name of this program's user in messages of the API server
	namespaces     []string // where writes were refused, sorted; empty at the cluster scope
}

// forbiddenWrite matches the API server's message about a missing permission.
var forbiddenWrite = regexp.MustCompile( //nolint:gochecknoglobals // compiled once
	`(?:User "([^"]*)" )?cannot (create|update|patch|delete|deletecollection) resource "([^"]+)" in API group "([^"]*)"` +
		`(?: in the namespace "([^"]*)")?`)

// quotedRefusal matches the refusal of an admission webhook, or a failed call of
// it, up to the end of the line. What follows may be the API server's message
// about a request of the webhook.
var quotedRefusal = regexp.MustCompile( //nolint:gochecknoglobals // compiled once
	`(?:admission webhook "[^"]*" denied the request|failed calling webhook "[^"]*").*`)

// refusalOf returns the text of err without the refusals of admission webhooks.
// A webhook may quote the answer to a request of its own, for which its own
// account lacks a permission.
func refusalOf(err error) string {
	text := err.Error()
	var remove func(error)
	remove = func(err error) {
		switch e := err.(type) { //nolint:errorlint // this walks through all wrapped errors
		case apierrors.APIStatus:
			if message := e.Status().Message; absent.IsWebhookRefusal(message) {
				text = strings.ReplaceAll(text, message, "") // it may have several lines
			}
		case interface{ Unwrap() error }:
			if wrapped := e.Unwrap(); wrapped != nil {
				remove(wrapped)
			}
		case interface{ Unwrap() []error }:
			for _, wrapped := range e.Unwrap() {
				remove(wrapped)
			}
		}
	}
	remove(err)
	return quotedRefusal.ReplaceAllString(text, "")
}

// missingPermission returns the permission without which a write failed, with
// all the namespaces that err names for it. If several permissions are missing,
// it returns the first one that err names. It returns nil if err has another
// reason.
func missingPermission(err error) *permission {
	var p *permission
	for _, found := range forbiddenWrite.FindAllStringSubmatch(refusalOf(err), -1) {
		account, verb, resource, group, namespace := found[1], found[2], found[3], found[4], found[5]
		target, subresource, _ := strings.Cut(resource, "/")
		if group != "" {
			target += "." + group
		}
		if subresource != "" {
			target += "/" + subresource
		}
		if p == nil {
			p = &permission{verb: verb, resource: target, account: account}
		}
		if namespace != "" && p.verb == verb && p.resource == target && !slices.Contains(p.namespaces, namespace) {
			p.namespaces = append(p.namespaces, namespace)
		}
	}
	if p != nil {
		slices.Sort(p.namespaces)
	}
	return p
}

// isSame reports whether p and other are the same verb for the same resource,
// perhaps in other namespaces. A nil permission, for a failure with another
// reason, is never the same as another.
func (p *permission) isSame(other *permission) bool {
	return p != nil && other != nil && p.verb == other.verb && p.resource == other.resource
}

// String returns a text such as `patch deployments.apps in namespace
// "default"`.
func (p *permission) String() string {
	switch len(p.namespaces) {
	case 0:
		return p.verb + " " + p.resource + " at the cluster scope"
	case 1:
		return fmt.Sprintf("%s %s in namespace %q", p.verb, p.resource, p.namespaces[0])
	}
	return fmt.Sprintf("%s %s in %d namespaces (%s)", p.verb, p.resource, len(p.namespaces), firstOf(p.namespaces))
}

// firstOf returns the first three names and the number of the others, such as
// "a, b, c and 2 more".
func firstOf(names []string) string {
	const shown = 3
	text := strings.Join(names[:min(len(names), shown)], ", ")
	if hidden := len(names) - shown; hidden > 0 {
		text += fmt.Sprintf(" and %d more", hidden)
	}
	return text
}

// allowedNamespaces returns the namespaces in which one of the writes, with the
// verb and the resource of p, has succeeded. It leaves out the namespaces of p,
// in which such a write was refused.
func (p *permission) allowedNamespaces(writes []write) map[string]bool {
	verbs := map[string]string{http.MethodPatch: "patch", http.MethodPut: "update", http.MethodPost: "create"}
	found := map[string]bool{}
	for i := range writes {
		w := &writes[i]
		verb, resource := verbs[w.content.Method], w.resource.String()
		if w.deleted {
			verb = "delete"
		}
		if w.content.Subresource != "" {
			resource += "/" + w.content.Subresource
		}
		done := w.outcome == ownwrites.Written || w.outcome == ownwrites.Removed || w.outcome == ownwrites.Accepted
		namespace, isSame := w.object.GetNamespace(), verb == p.verb && resource == p.resource
		if done && isSame && !slices.Contains(p.namespaces, namespace) {
			found[namespace] = true
		}
	}
	return found
}

// remedy says how to grant the permission. allowed are the namespaces in which
// such a write has succeeded recently.
func (p *permission) remedy(allowed map[string]bool) string {
	grantee := "this program"
	if p.account != "" {
		grantee = fmt.Sprintf("%q", p.account)
	}
	switch {
	case len(p.namespaces) == 0:
		return fmt.Sprintf("grant it to %s with a ClusterRole and a ClusterRoleBinding", grantee) + p.howToFind()
	case len(allowed) > 0:
		return fmt.Sprintf("grant it to %s there, with a RoleBinding, and with a Role unless it binds a ClusterRole: "+
			"in other namespaces (%s) such writes succeed", grantee, firstOf(slices.Sorted(maps.Keys(allowed)))) + p.howToFind()
	case len(p.namespaces) > 1:
		return fmt.Sprintf("grant it to %s with a ClusterRole and a ClusterRoleBinding: such writes are refused in every "+
			"namespace that was tried", grantee) + p.howToFind()
	}
	return fmt.Sprintf("grant it to %s; no other namespace was tried, so `kubectl auth can-i %s %s --all-namespaces` as "+
		"this account says whether a Role is missing there, or a rule of a ClusterRole", grantee, p.verb, p.resource)
}

// howToFind returns a hint on how to find the roles of the account.
func (p *permission) howToFind() string {
	name := p.account
	if account, found := strings.CutPrefix(name, "system:serviceaccount:"); found {
		name = strings.Replace(account, ":", "/", 1) // as kubectl prints it
	}
	if name == "" {
		return ""
	}
	return "; `kubectl get clusterrolebindings,rolebindings -A -o wide | grep -w " + name + "` finds the roles that it has"
}
