package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
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

// parsePermissions reads "get,list widgets.example.com/status" and "patch widgets a-name".
func parsePermissions(namespace string, needs ...string) ([]permission, error) {
	var all []permission
	var errs []error
	for _, need := range needs {
		words := strings.Split(need, " ")
		if len(words) < 2 || len(words) > 3 || slices.Contains(words, "") {
			errs = append(errs, fmt.Errorf("field Needs: %q: must be verbs, a resource and perhaps a name, such as "+
				`"list,watch pods"`, need))
			continue
		}
		what, subresource, _ := strings.Cut(words[1], "/")
		resource, group, _ := strings.Cut(what, ".")
		name := strings.Join(words[2:], "")
		for verb := range strings.SplitSeq(words[0], ",") {
			all = append(all, permission{
				Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name, Namespace: namespace,
			})
		}
	}
	return all, errors.Join(errs...)
}

// needs are all that the program needs under these flags.
func (p Program) needs(f *flags) []permission {
	all, _ := parsePermissions("", p.Needs...) // which validate has seen
	const leases = "leases." + coordinationv1.GroupName
	var more []permission
	switch {
	case !f.leaderElect:
	case p.Replicas == AllShare:
		more, _ = parsePermissions(f.namespace, "get,list,watch,create,update,delete "+leases)
	default: // a name cannot restrict create
		more, _ = parsePermissions(f.namespace, "create "+leases, "get,update "+leases+" "+p.Name)
	}
	return append(all, more...)
}

// CheckPermissions returns nil when the API server has said that this process has
// every permission of needs, which read as those of [Program.Needs]. A server that
// does not answer is asked again until the timeout.
//
// Errors: every missing permission, joined; the server that did not answer in time;
// that ctx has ended; a malformed need.
func CheckPermissions(ctx context.Context, c *cluster.Cluster, timeout time.Duration, needs ...string) error {
	permissions, err := parsePermissions("", needs...)
	if err != nil {
		return err
	}
	return checkPermissions(ctx, c, timeout, permissions)
}

func checkPermissions(ctx context.Context, c *cluster.Cluster, timeout time.Duration, needs []permission) error {
	return persist(ctx, c, timeout, func(ctx context.Context) error { return review(ctx, c.Client(), needs) })
}

// persist asks a server at the start, and again while it does not answer.
func persist(ctx context.Context, c *cluster.Cluster, timeout time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := ask(limited)
		if err == nil || answered(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		logr.FromContextOrDiscard(ctx).Info("the API server does not answer, asking again",
			"server", c.Config().Host, "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limited.Done():
			return fmt.Errorf("reaching the API server at %s: no answer in %v: check that it runs and that the "+
				"kubeconfig names it: %w", c.Config().Host, timeout, err)
		case <-time.After(preflightInterval):
		}
	}
}

// answered reports whether err is the server's answer, or a fault of the program,
// and not one that may be over soon.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !temporary(err) || errors.Is(err, errMissing) ||
		errors.Is(err, cluster.ErrKind)
}

func temporary(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

var errMissing = errors.New("grant it, for example with a ClusterRole")

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
