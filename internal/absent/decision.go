package absent

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Decision returns the API server's answer to the question whether an account
// has a permission. It returns an internal error if the server itself could not
// decide. For example, a webhook of the server that authorizes requests may not
// answer; the server then says that the request is not allowed, and why.
func Decision(status authorizationv1.SubjectAccessReviewStatus) (allowed bool, err error) {
	if !status.Allowed && status.EvaluationError != "" {
		return false, apierrors.NewInternalError(fmt.Errorf(
			"the server could not decide whether the account has the permission: %s", status.EvaluationError))
	}
	return status.Allowed, nil
}
