package absent_test

import (
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/absent"
)

func TestAReviewThatTheServerCouldNotDecideIsNoRefusal(t *testing.T) {
	g := NewWithT(t)
	for status, allowed := range map[authorizationv1.SubjectAccessReviewStatus]bool{
		{Allowed: true}: true, {Allowed: true, EvaluationError: "one of two"}: true, {}: false, {Denied: true}: false,
	} {
		g.Expect(absent.Decision(status)).To(Equal(allowed))
	}
	for _, denied := range []bool{true, false} {
		_, err := absent.Decision(authorizationv1.SubjectAccessReviewStatus{Denied: denied, EvaluationError: "webhook: timeout"})
		g.Expect(err).To(MatchError(ContainSubstring("webhook: timeout")))
		g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), "it may be gone at the next attempt")
	}
}
