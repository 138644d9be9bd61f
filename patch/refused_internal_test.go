package patch

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/diff"
)

// A webhook may refuse a write with the code of a patch that could not be
// applied. Its reason must reach the user, and no guess about hidden fields.
func TestTheRefusalOfAWebhookIsNoFailedOperation(t *testing.T) {
	g, p := NewWithT(t), diff.Patch{Style: diff.Operations}
	invalid := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: message,
		}}
	}
	g.Expect(refused(p, invalid(`admission webhook "quota.example.com" denied the request: too many slots`))).To(BeFalse())
	g.Expect(refused(p, invalid("the server rejected our request due to an error in our request"))).To(BeTrue())
	p.Style = diff.JSON
	g.Expect(refused(p, invalid("the server rejected our request due to an error in our request"))).To(BeFalse())
}
