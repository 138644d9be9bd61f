package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const preflightInterval = 2 * time.Second

// permission is one verb on one resource, in one namespace if that is set.
type permission authorizationv1.ResourceAttributes

func (p permission) String() string {
	resource := p.Resource
	if p.Group != "" {
		resource += "." + p.Group
	}
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	if p.Name != "" {
		resource += " " + p.Name
	}
	if p.Namespace != "" {
		resource += " in namespace " + p.Namespace
	}
	return p.Verb + " " + resource
}

// permissions reads "get,list widgets.example.com/status" and "patch widgets a-name".
func permissions(need, namespace string) []permission {
	verbs, what, _ := strings.Cut(need, " ")
	what, name, _ := strings.Cut(what, " ")
	what, subresource, _ := strings.Cut(what, "/")
	resource, group, _ := strings.Cut(what, ".")
	var all []permission
	for verb := range strings.SplitSeq(verbs, ",") {
		all = append(all, permission{
			Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name, Namespace: namespace,
		})
	}
	return all
}

// permissions are all that the program needs under these flags.
func (p Program) permissions(f *flags) []permission {
	var all []permission
	for _, need := range p.Needs {
		all = append(all, permissions(need, "")...)
	}
	const leases = "leases." + coordinationv1.GroupName
	switch {
	case !f.leaderElect:
		return all
	case p.Sharded:
		return append(all, permissions("get,list,watch,create,update,delete "+leases, f.namespace)...)
	default:
		all = append(all, permissions("create "+leases, f.namespace)...) // a name cannot restrict it
		return append(all, permissions("get,update "+leases+" "+p.Name, f.namespace)...)
	}
}

// preflight returns when the server has said yes to every permission. A server
// that does not answer is asked again until the timeout. Errors name the server,
// or the permissions that are missing; or ctx has ended.
func preflight(ctx context.Context, config *rest.Config, needs []permission, timeout time.Duration) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := review(limited, client, needs)
		var answered apierrors.APIStatus
		if err == nil || errors.As(err, &answered) && !temporary(err) || errors.Is(err, errMissing) {
			return err
		}
		logr.FromContextOrDiscard(ctx).Info("the API server does not answer; asking again",
			"server", config.Host, "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limited.Done():
			return fmt.Errorf("reaching the API server at %s: no answer in %v: check that it runs and that the "+
				"kubeconfig names it: %w", config.Host, timeout, err)
		case <-time.After(preflightInterval):
		}
	}
}

func temporary(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

var errMissing = errors.New("grant it with the ClusterRole of the README")

func review(ctx context.Context, client kubernetes.Interface, needs []permission) error {
	var missing []error
	for _, p := range needs {
		asked := authorizationv1.ResourceAttributes(p)
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked},
			}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking whether this may %s: %w", p, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, fmt.Errorf("missing permission to %s: %w", p, errMissing))
		}
	}
	return errors.Join(missing...)
}
