package status

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/absent"
)

// Answers of the API server are remembered for allowedFor or refusedFor. At
// most answersKept answers are remembered, and at most maxReviews requests are
// in flight.
const (
	allowedFor    = time.Minute
	refusedFor    = 10 * time.Second
	answersKept   = 1000
	reviewTimeout = 10 * time.Second
	maxReviews    = 4
)

// ReviewClient creates reviews. A kubernetes.Interface implements it. It needs
// the permissions of the ClusterRole system:auth-delegator.
type ReviewClient interface {
	AuthenticationV1() authenticationclient.AuthenticationV1Interface
	AuthorizationV1() authorizationclient.AuthorizationV1Interface
}

// Reviewed returns a function for Options.Authorize that asks the API server. A
// TokenReview finds the user of the bearer token, and a SubjectAccessReview
// finds whether the user may "get" the path, for example the nonResourceURL
// /metrics. For browsers, the token may also be the password of basic
// authentication.
//
// An answer is remembered for a minute if the request was allowed, and for 10
// seconds if it was refused. If the server does not answer within 10 seconds,
// the request is refused. The origin of the request does not matter, since
// behind a sidecar every request is sent from loopback. At most four reviews
// are in flight at a time; further requests wait for them, within their 10
// seconds.
//
// The function returns an error that wraps [ErrUnauthenticated] if the token is
// missing or invalid, and a different error if the user has no permission. An
// error of the server refuses the request, too. It is logged and not
// remembered, and the answer to the request has status 503 and names the cause.
// The function is safe for concurrent use.
func Reviewed(client ReviewClient) func(*http.Request) error {
	r := &reviewer{client, cache.NewLRUExpireCache(answersKept), make(chan struct{}, maxReviews)}
	return r.authorize
}

// reviewer asks the API server, and remembers its answers.
type reviewer struct {
	client  ReviewClient
	answers *cache.LRUExpireCache // answers by question: the error of a refusal, or nil
	slots   chan struct{}         // bounds the reviews in flight
}

// question is a token and the path for which it is reviewed.
type question struct {
	token [sha256.Size]byte // SHA-256 of the token
	path  string
}

// authorize implements Options.Authorize. It logs why the API server could not
// review a token, since the answer to the request does not contain that error.
// The error is not remembered.
func (r *reviewer) authorize(request *http.Request) error {
	token := tokenOf(request)
	if token == "" {
		return fmt.Errorf("the request has no bearer token: %w", ErrUnauthenticated)
	}
	asked := question{sha256.Sum256([]byte(token)), request.URL.Path}
	if known, ok := r.answers.Get(asked); ok {
		refused, _ := known.(error)
		return refused
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return &unreviewedError{fmt.Errorf("waiting to review a token: %w", ctx.Err())}
	}
	refused, err := r.review(ctx, token, asked.path)
	if err != nil {
		klog.FromContext(ctx).Error(err, "request refused: the API server did not review the caller's token; the "+
			"caller's permissions are not the cause", "path", asked.path)
		return &unreviewedError{err}
	}
	lifetime := allowedFor
	if refused != nil {
		lifetime = refusedFor
	}
	r.answers.Add(asked, refused, lifetime)
	return refused
}

// tokenOf returns the bearer token, or the password of basic authentication. It
// returns "" if the request has neither.
func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// review returns as refused why the server refuses the token, or as err why the
// server could not be asked.
func (r *reviewer) review(ctx context.Context, token, path string) (refused, err error) {
	identity, err := r.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	if !identity.Status.Authenticated {
		return fmt.Errorf("the token is not valid: %w", ErrUnauthenticated), nil
	}
	user := identity.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	answer, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing access of %q to %s: %w", user.Username, path, err)
	}
	switch allowed, err := absent.Decision(answer.Status); {
	case err != nil:
		return nil, fmt.Errorf("reviewing access of %q to %s: %w", user.Username, path, err)
	case !allowed:
		return errors.New("the user is not allowed to get this path"), nil
	}
	return nil, nil
}

// unreviewedError is the reason why the API server could not be asked.
type unreviewedError struct{ err error }

func (u *unreviewedError) Error() string { return u.err.Error() }

// Unwrap returns the error of the request.
func (u *unreviewedError) Unwrap() error { return u.err }

// answer returns the text for the client. It names no address and no account,
// because the client has not been authenticated.
func (u *unreviewedError) answer() string {
	cause := "see the log of this replica"
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](u.err)
	switch reason := apierrors.ReasonForError(u.err); {
	case reason != metav1.StatusReasonUnknown:
		cause = string(reason)
	case untrusted:
		cause = "the certificate of the API server is not accepted"
	case utilnet.IsConnectionRefused(u.err):
		cause = "connection refused"
	case errors.Is(u.err, context.DeadlineExceeded), utilnet.IsTimeout(u.err):
		cause = fmt.Sprintf("no answer within %v", reviewTimeout)
	}
	return "your token could not be reviewed, because this replica's request to the API server failed: " + cause +
		"; your own permissions are not the cause"
}
