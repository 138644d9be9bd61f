package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent"
)

// preflightInterval is how often a server is asked at least while it does not
// answer at the start.
const preflightInterval = 2 * time.Second

// ErrPermission is the error of [CheckPermissions] if the server has said that a
// permission is missing.
var ErrPermission = errors.New("missing permission")

// CheckPermissions returns nil when the API server has confirmed that this
// process has every permission in needs, which have the form of [Program.Needs]
// without a cluster. A server that does not answer is asked again until the
// timeout. It sends one SelfSubjectAccessReview per permission, all at the same
// time, and none for those by name.
//
// Errors: every missing permission, each with [ErrPermission], joined; a server
// that did not answer in time; the end of ctx; a malformed need. Concurrency:
// it is safe for concurrent use.
func CheckPermissions(ctx context.Context, c *cluster.Cluster, timeout time.Duration, needs ...string) error {
	permissions, err := parseNeeds(needs, nil)
	if err != nil {
		return err
	}
	return asker{map[string]*cluster.Cluster{first: c}, timeout, none}.check(ctx, permissions)
}

// errNoCluster is the error of parts that are given none.
var errNoCluster = errors.New("the cluster is nil: cluster.New has returned an error")

// asker asks clusters, by name, what this process may do there.
type asker struct {
	clusters map[string]*cluster.Cluster
	timeout  time.Duration
	optional func(name string) bool // such a cluster is not waited for
}

// none is for programs that can do without no cluster.
func none(string) bool { return false }

// check returns every missing permission, joined, and logs those that the
// program can do without.
func (a asker) check(ctx context.Context, needs []permission) error {
	by := map[string][]permission{}
	for _, need := range needs {
		by[need.cluster] = append(by[need.cluster], need)
	}
	return each(slices.Sorted(maps.Keys(by)), func(name string) error {
		c, timeout := a.clusters[name], a.timeout
		if c == nil {
			return fmt.Errorf("asking for permissions: %w", errNoCluster)
		}
		if a.optional(name) {
			timeout = min(timeout, answerWithin)
		}
		host := c.Config().Host
		starting(ctx, host, "asking the API server at %s for permissions", host)
		return persist(ctx, c, timeout, func(ctx context.Context) error { return review(ctx, c.Client(), by[name]) })
	})
}

// persist asks a server at the start, and again while it does not answer.
func persist(ctx context.Context, c *cluster.Cluster, timeout time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := c.Config().Host
	for pause := askAgain; ; pause = min(2*pause, preflightInterval) {
		err := within(limited, ask)
		if err == nil || answered(err) {
			starting(ctx, host, "")
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		starting(ctx, host, "the API server at %s does not answer: %v", host, err)
		logr.FromContextOrDiscard(ctx).Info("API server does not answer, retrying", "server", host, "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limited.Done():
			return fmt.Errorf("reaching the API server at %s: no answer in %v: check that it runs and that the "+
				"kubeconfig names it: %w", host, timeout, err)
		case <-time.After(pause):
		}
	}
}

// within asks a server once. A server that accepts connections and says nothing
// must not use up all the time.
func within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return ask(ctx)
}

// answered reports whether err is the server's answer, or a fault of the program,
// and not one that may be over soon.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !temporary(err) && !pageNotFound(err) || errors.Is(err, ErrPermission) ||
		errors.Is(err, cluster.ErrKind)
}

// pageNotFound reports whether something other than the API server has answered
// with status 404, such as a proxy that does not yet know the server.
func pageNotFound(err error) bool {
	return absent.IsForeign(err) && apierrors.IsNotFound(err) //nolint:forbidigo // it is what proves nothing
}

func temporary(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

// review asks for all permissions at once.
func review(ctx context.Context, client kubernetes.Interface, needs []permission) error {
	needs = slices.DeleteFunc(slices.Clone(needs), func(p permission) bool { return p.byName })
	granted, errs := make([]bool, len(needs)), make([]error, len(needs))
	var asking sync.WaitGroup
	for i, p := range needs {
		asking.Go(func() { granted[i], errs[i] = may(ctx, client, p) })
	}
	asking.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i] // they are much the same
	}
	var missing []error
	for i, p := range needs {
		switch {
		case granted[i]:
		case p.without != "":
			logr.FromContextOrDiscard(ctx).Info("missing permission, doing without", "permission", p.String(),
				"consequence", p.without)
		default:
			missing = append(missing, fmt.Errorf("%w to %s: grant it, for example with %s", ErrPermission, p, p.role()))
		}
	}
	if len(missing) > 0 {
		missing = append(missing, whose(ctx, client))
	}
	return errors.Join(missing...)
}

// may reports whether this process has the permission p.
func may(ctx context.Context, client kubernetes.Interface, p permission) (bool, error) {
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &p.ResourceAttributes},
		}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return false, fmt.Errorf("asking whether this may %s: %w: the server does not know this account: check its token "+
			"or certificate", p, err)
	case err != nil:
		return false, fmt.Errorf("asking whether this may %s: %w", p, err)
	}
	return answer.Status.Allowed, nil
}

// whose is an error that names the account, nil if that cannot be found out.
func whose(ctx context.Context, client kubernetes.Interface) error {
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || self.Status.UserInfo.Username == "" {
		return nil
	}
	return fmt.Errorf("the account is %s", self.Status.UserInfo.Username)
}
