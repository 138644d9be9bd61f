package children_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

// web is a Service with the address and a port. An address of "" is left to the
// server.
func web(address string, port int32) children.Child[*corev1.Service] {
	return children.Child[*corev1.Service]{Name: "web", Edit: func(s *corev1.Service) {
		if address != "" {
			s.Spec.ClusterIP = address
		}
		s.Spec.Selector = map[string]string{"app": "web"}
		s.Spec.Ports = []corev1.ServicePort{{Port: port}}
	}}
}

// The edit changes spec.clusterIP. The server derives spec.clusterIPs from it,
// and names that field.
func TestAHeadlessServiceKeepsNoOtherField(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		services := w.client.CoreV1().Services
		withCache(w, informer.For(services(""), nil), services, func(ensure func(children.Child[*corev1.Service]) error) {
			w.Expect(ensure(web("", 80))).To(Succeed())
			w.Expect(ensure(web("None", 81))).To(MatchError(ContainSubstring("the child's fields spec.clusterIPs[0] are immutable")))
			got, err := w.user.CoreV1().Services("d").Get(w.t.Context(), "web", metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(got.Spec.Ports[0].Port).To(BeEquivalentTo(81))
			w.Expect(got.Spec.ClusterIP).NotTo(Equal("None"))
		})
	})
}

// readers is a RoleBinding of the role to the account.
func readers(role, account string) children.Child[*rbacv1.RoleBinding] {
	return children.Child[*rbacv1.RoleBinding]{Name: "readers", Edit: func(b *rbacv1.RoleBinding) {
		b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		b.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: "d"}}
	}}
}

func TestAnotherRoleKeepsNoSubjectOfARoleBinding(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		bindings := w.client.RbacV1().RoleBindings
		withCache(w, informer.For(bindings(""), nil), bindings, func(ensure func(children.Child[*rbacv1.RoleBinding]) error) {
			w.Expect(ensure(readers("view", "a"))).To(Succeed())
			w.Expect(ensure(readers("edit", "b"))).To(MatchError(ContainSubstring("the child's fields roleRef are immutable")))
			got, err := w.user.RbacV1().RoleBindings("d").Get(w.t.Context(), "readers", metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(got.Subjects[0].Name).To(Equal("b"))
			w.Expect(got.RoleRef.Name).To(Equal("view"))
		})
	})
}

// The texts are those of Kubernetes 1.36. The last ones are about values, and
// so must not have a child recreated.
func TestTheTextsAboutImmutableFieldsAreRead(t *testing.T) {
	for text, immutable := range map[string]bool{
		"field is immutable":                    true,
		"may not change once set":               true,
		"cannot change roleRef":                 true,
		"failed rule: self == oldSelf":          true,
		"updates to provisioner are forbidden.": true,
		"failed rule: self == oldSelf + 1":      false,
		"failed rule: self >= oldSelf":          false,
		"cannot change while it is in use":      false,
		"must be known":                         false,
	} {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "a",
			field.ErrorList{field.Invalid(field.NewPath("spec", "class"), "b", text)})
		g := NewWithT(t)
		if immutable {
			g.Expect(children.ImmutableFields(err)).To(Equal([]string{"spec.class"}), text)
		} else {
			g.Expect(children.ImmutableFields(err)).To(BeEmpty(), text)
		}
	}
}
