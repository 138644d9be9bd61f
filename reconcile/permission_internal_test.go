package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/ownwrites"
)

// refusedIn is the error of patches of Secrets in these namespaces, as the API
// server's authorizer words it.
func refusedIn(namespaces ...string) error {
	var errs []error
	for _, n := range namespaces {
		errs = append(errs, fmt.Errorf(`secrets "a" is forbidden: User "system:serviceaccount:m:m" cannot patch resource `+
			`"secrets" in API group "" in the namespace %q`, n))
	}
	return errors.Join(errs...)
}

func patched(namespace string, outcome ownwrites.Outcome) write {
	return write{
		object:   &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}},
		resource: schema.GroupResource{Resource: "secrets"}, content: ownwrites.Content{Method: http.MethodPatch}, outcome: outcome,
	}
}

func TestAMissingPermissionNamesTheNamespacesAndTheAccount(t *testing.T) {
	for name, row := range map[string]struct {
		err                error
		writes             []write
		permission, remedy string
	}{
		"one namespace, and no other was tried": {
			err:        refusedIn("b"),
			writes:     []write{patched("c", ownwrites.Refused), patched("d", ownwrites.Uncertain)},
			permission: `patch secrets in namespace "b"`,
			remedy: `grant it to "system:serviceaccount:m:m"; no other namespace was tried, so ` +
				"`kubectl auth can-i patch secrets --all-namespaces` as this account says whether a Role is missing there, " +
				"or a rule of a ClusterRole",
		},
		"one namespace of several": {
			err: refusedIn("b"), writes: []write{patched("c", ownwrites.Written), patched("a", ownwrites.Written)},
			permission: `patch secrets in namespace "b"`,
			remedy: `grant it to "system:serviceaccount:m:m" there, with a RoleBinding, ` +
				"and with a Role unless it binds a ClusterRole: in other namespaces (a, c) such writes succeed; " +
				"`kubectl get clusterrolebindings,rolebindings -A -o wide | grep -w m/m` finds the roles that it has",
		},
		"every namespace": {
			err:        refusedIn("b", "a", "d", "c", "b"),
			permission: `patch secrets in 4 namespaces (a, b, c and 1 more)`,
			remedy: `grant it to "system:serviceaccount:m:m" with a ClusterRole and a ClusterRoleBinding: ` +
				"such writes are refused in every namespace that was tried; " +
				"`kubectl get clusterrolebindings,rolebindings -A -o wide | grep -w m/m` finds the roles that it has",
		},
		"no namespace": {
			err:        errors.New(`cannot delete resource "nodes" in API group ""`),
			permission: `delete nodes at the cluster scope`,
			remedy:     "grant it to this program with a ClusterRole and a ClusterRoleBinding",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := missingPermission(row.err)
			g.Expect(p.String()).To(Equal(row.permission))
			g.Expect(p.remedy(p.allowedNamespaces(row.writes))).To(Equal(row.remedy))
		})
	}
}

// A webhook may quote the API server's answer to a request of its own. The
// permission is then missing for the account of the webhook.
func TestAPermissionThatAWebhookLacksIsNotThePrograms(t *testing.T) {
	const quoted = `secrets is forbidden: User "system:serviceaccount:w:w" cannot create resource "secrets" in API group ` +
		`"" in the namespace "a"`
	refusal := func(text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "inject.example.com" denied the request: ` + text,
		}}
	}
	for name, err := range map[string]error{
		"refusal":            fmt.Errorf("creating: %w", refusal(quoted)),
		"several lines":      fmt.Errorf("creating: %w", errors.Join(errors.New("other"), refusal("blocked:\n\n  rule: "+quoted))),
		"without the status": fmt.Errorf("creating: %v", refusal(quoted)), //nolint:errorlint // as a program may do
		"failed call": apierrors.NewInternalError(errors.New(`failed calling webhook "inject.example.com": failed to call ` +
			`webhook: ` + quoted)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(missingPermission(err)).To(BeNil())
			p := missingPermission(errors.Join(err, refusedIn("b")))
			g.Expect(p.String()).To(Equal(`patch secrets in namespace "b"`), "the program lacks it")
			g.Expect(missingPermission(errors.Join(refusedIn("b"), err)).String()).To(Equal(p.String()))
		})
	}
}

// A reconcile does not repeat the writes that have succeeded.
func TestANamespaceInWhichAWriteHasSucceededIsRemembered(t *testing.T) {
	g := NewWithT(t)
	first := failure{missing: missingPermission(refusedIn("a")), allowed: map[string]bool{"b": true, "c": true}}
	second := failure{missing: missingPermission(refusedIn("a", "c")), allowed: map[string]bool{}}
	second.keepAllowed(&first)
	g.Expect(second.allowed).To(Equal(map[string]bool{"b": true}))
}
