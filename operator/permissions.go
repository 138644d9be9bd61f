package operator

import (
	"context"
	"crypto/tls"
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
	"github.com/homeostat/homeostat/internal/proxied"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/internal/suspect"
)

// preflightInterval bounds the delay between requests to a server that does not
// answer while the program starts.
const preflightInterval = 2 * time.Second

// rolesLoading is how long a status 403 must last before it counts as a decision.
// An API server that has just started knows no roles yet. For a moment, in large
// clusters for longer, it refuses everything, also the question for permissions.
const rolesLoading = 10 * time.Second

// ErrPermission is the error of [CheckPermissions] if the server has confirmed
// that a permission is missing.
var ErrPermission = errors.New("missing permission")

// CheckPermissions returns nil when the API server has confirmed that this
// process has every permission in needs. They have the form of [Program.Needs],
// without a cluster. A question mark after a namespace has no effect here. If
// the server does not answer, or could not decide, it is asked again until the
// timeout. Each time, CheckPermissions sends one SelfSubjectAccessReview per
// permission, all at the same time, and none for a need "by name".
//
// CheckPermissions returns a joined error that names every missing permission,
// each with [ErrPermission]. It also returns an error if a need is malformed,
// if the server refuses to answer, for example because it does not know the
// account, if it has not answered in time, or if ctx ends. A status 403 counts
// as a refusal after ten seconds, because a server that has just started refuses
// everything until it has loaded its roles. CheckPermissions is safe for
// concurrent use.
func CheckPermissions(ctx context.Context, c *cluster.Cluster, timeout time.Duration, needs ...string) error {
	permissions, err := parseNeeds(needs, nil)
	if err != nil {
		return err
	}
	return asker{map[string]*cluster.Cluster{first: c}, timeout, noneOptional}.check(ctx, permissions)
}

// errNoCluster is the error of a call with a nil cluster.
var errNoCluster = errors.New("the cluster is nil: check the error that cluster.New returned")

// asker asks clusters which permissions this process has.
type asker struct {
	clusters map[string]*cluster.Cluster
	timeout  time.Duration
	optional func(name string) bool // reports whether check gives up on the cluster after answerTimeout
}

// noneOptional is the value of asker.optional for clusters that are all
// required.
func noneOptional(string) bool { return false }

// check returns every missing permission, joined. It only logs the ones that
// the program can do without.
func (a asker) check(ctx context.Context, needs []permission) error {
	byCluster := map[string][]permission{}
	for _, need := range needs {
		byCluster[need.cluster] = append(byCluster[need.cluster], need)
	}
	return forEachCluster(slices.Sorted(maps.Keys(byCluster)), func(name string) error {
		c, timeout := a.clusters[name], a.timeout
		if c == nil {
			return fmt.Errorf("checking permissions: %w", errNoCluster)
		}
		if a.optional(name) {
			timeout = min(timeout, answerTimeout)
		}
		host := redact.Address(c.Config().Host)
		starting(ctx, host, "asking the API server at %s for permissions", host)
		return persist(ctx, c, timeout, func(ctx context.Context) error { return review(ctx, c.Client(), byCluster[name]) })
	})
}

// persist calls ask until it returns nil or an error that is final; see
// isFinal. A status 403 is final only if it lasts; see rolesLoading. persist
// returns an error that names the server if the timeout passes before that.
func persist(ctx context.Context, c *cluster.Cluster, timeout time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	host := redact.Address(c.Config().Host)
	var last error           // the reason; an attempt that the timeout cuts off does not show it
	var forbidding time.Time // when the server began to answer each attempt with status 403
	for pause := firstDelay; ; pause = min(2*pause, preflightInterval) {
		err := askOnce(limited, ask)
		forbids := apierrors.IsForbidden(err)
		forbidding = beginning(forbidding, forbids)
		if err == nil || isFinal(err) && (!forbids || time.Since(forbidding) >= rolesLoading) {
			starting(ctx, host, "")
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if last == nil || limited.Err() == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		said := "does not answer"
		if forbids {
			said = "refuses to answer"
		}
		starting(ctx, host, "the API server at %s %s: %v", host, said, err)
		logr.FromContextOrDiscard(ctx).Info("the API server has not decided yet, retrying", "server", host,
			"error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limited.Done():
			return unreachable(host, timeout, last)
		case <-time.After(pause):
		}
	}
}

// beginning returns when a state began, or zero if it does not last any more.
// since is the result of the last call, or zero.
func beginning(since time.Time, lasts bool) time.Time {
	switch {
	case !lasts:
		return time.Time{}
	case since.IsZero():
		return time.Now()
	}
	return since
}

// unreachable returns the error for a server that was not reached within
// timeout. err is the error of the last attempt. If it is a refusal, the server
// was reached, and unreachable returns err itself.
func unreachable(host string, timeout time.Duration, err error) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	format := "no answer in %v: check that it runs and that the kubeconfig names it"
	if _, refused := errors.AsType[*tls.CertificateVerificationError](err); refused {
		format = "no certificate that this program accepts in %v: check the address and the authority in the kubeconfig"
	} else if _, ok := errors.AsType[*proxied.Error](err); ok {
		format = "no answer in %v: check the proxy that is named at the end, that the server runs, and that the kubeconfig " +
			"names it"
	}
	return fmt.Errorf("reaching the API server at %s: "+format+": %w", host, timeout, err)
}

// askOnce calls ask with the time limit answerTimeout. So a server that accepts
// a connection but never answers does not use up all the time.
func askOnce(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return ask(ctx)
}

// isFinal reports whether another attempt would fail as well, because err is a
// decision of the API server or a mistake in the program.
func isFinal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !isTemporary(err) && !isForeignNotFound(err) || errors.Is(err, ErrPermission) ||
		errors.Is(err, cluster.ErrKind)
}

// isForeignNotFound reports whether err is a status 404 that the API server has
// not sent itself. For example, a proxy sends it before it knows the server.
func isForeignNotFound(err error) bool {
	return absent.IsForeign(err) && apierrors.IsNotFound(err) //nolint:forbidigo // IsForeign has been checked
}

// isTemporary reports whether err is an answer of the API server after which
// another attempt may succeed, such as 429 or 503.
func isTemporary(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}

// review asks the API server for all permissions at the same time, except the
// ones that are needed by name only. It returns an error for each permission
// that is missing, joined. It only logs the ones that the program can do
// without. If the server does not answer about a permission that the program
// requires, or answers about none of the permissions, review returns only the
// error of one request.
func review(ctx context.Context, client kubernetes.Interface, needs []permission) error {
	needs = slices.DeleteFunc(slices.Clone(needs), func(p permission) bool { return p.byName })
	granted, errs := make([]bool, len(needs)), make([]error, len(needs))
	var asking sync.WaitGroup
	for i, p := range needs {
		asking.Go(func() { granted[i], errs[i] = isAllowed(ctx, client, p) })
	}
	asking.Wait()
	unanswered := !slices.Contains(errs, nil)
	var missing []error
	for i, p := range needs {
		switch {
		case granted[i]:
		case errs[i] != nil && (p.consequence == "" || unanswered):
			return errs[i] // the other errors are usually the same
		case errs[i] != nil:
			logr.FromContextOrDiscard(ctx).Info("checking a permission failed, continuing without the answer",
				"permission", p.String(), "consequence", p.consequence, "error", errs[i].Error())
		case p.consequence != "":
			logr.FromContextOrDiscard(ctx).Info("missing permission, continuing without it", "permission", p.String(),
				"consequence", p.consequence)
		default:
			missing = append(missing, fmt.Errorf("%w to %s: grant it, for example with %s", ErrPermission, p, p.role()))
		}
	}
	if len(missing) > 0 {
		missing = append(missing, accountError(ctx, client))
	}
	return errors.Join(missing...)
}

// isAllowed reports whether this process has the permission p.
func isAllowed(ctx context.Context, client kubernetes.Interface, p permission) (bool, error) {
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &p.ResourceAttributes},
		}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return false, fmt.Errorf("checking permission to %s: %w: the server does not know this account: check its token "+
			"or certificate", p, err)
	case err != nil:
		return false, fmt.Errorf("checking permission to %s: %w", p, err)
	}
	allowed, err := absent.Decision(answer.Status)
	if err != nil {
		return false, fmt.Errorf("checking permission to %s: %w", p, err)
	}
	if asked := answer.Spec.ResourceAttributes; asked != nil && *asked != p.ResourceAttributes {
		return false, suspect.Answerf("checking permission to %s: the answer is for verb %q of resource %q",
			p, asked.Verb, asked.Resource)
	}
	return allowed, nil
}

// accountError returns an error that names the account of this process, or nil
// if the server does not name the account.
func accountError(ctx context.Context, client kubernetes.Interface) error {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return nil
	}
	return fmt.Errorf("the account is %s", review.Status.UserInfo.Username)
}
