package status_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/status"
	"github.com/homeostat/homeostat/status/profiles"
)

// reviews is an API server that knows the tokens "good" and "other". It lets
// only the user of "good" get /metrics, and no other path.
type reviews struct {
	*fake.Clientset
	tokens, accesses int
	broken           error
}

func newReviews() *reviews {
	r := &reviews{Clientset: fake.NewClientset()}
	r.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.tokens++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "good" || review.Spec.Token == "other"
		review.Status.User = authenticationv1.UserInfo{
			Username: review.Spec.Token, UID: "7", Groups: []string{"group"},
			Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
		}
		return true, review, r.broken
	})
	r.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.accesses++
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = fmt.Sprint(review.Spec) == fmt.Sprint(authorizationv1.SubjectAccessReviewSpec{
			User: "good", UID: "7", Groups: []string{"group"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
			NonResourceAttributes: review.Spec.NonResourceAttributes,
		}) && *review.Spec.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		return true, review, r.broken
	})
	return r
}

func requestWith(path, authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", authorization)
	return r
}

func TestReviewedAsksTheServerForTheUserAndTheirAccess(t *testing.T) {
	g := NewWithT(t)
	authorize := status.Reviewed(newReviews())
	g.Expect(authorize(requestWith("/metrics", "Bearer good"))).To(Succeed())
	g.Expect(authorize(requestWith("/metrics", "bearer good"))).To(Succeed())
	browser := requestWith("/metrics", "")
	browser.SetBasicAuth("anybody", "good")
	g.Expect(authorize(browser)).To(Succeed())
	for _, none := range []string{"", "Bearer", "Bearer ", "Digest good", "good"} {
		g.Expect(authorize(requestWith("/metrics", none))).To(MatchError(status.ErrUnauthenticated), none)
	}
	g.Expect(authorize(requestWith("/metrics", "Bearer bad"))).To(MatchError(status.ErrUnauthenticated))
	for path, token := range map[string]string{"/debug/homeostat": "good", "/metrics": "other"} {
		err := authorize(requestWith(path, "Bearer "+token))
		g.Expect(err).To(MatchError("the user is not allowed to get this path"))
		g.Expect(err).NotTo(MatchError(status.ErrUnauthenticated))
	}
}

func TestLoopbackAloneIsNoProof(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Authorize: status.Reviewed(newReviews()), Profiles: profiles.Handler()})
	g.Expect(err).NotTo(HaveOccurred())
	for _, path := range []string{"/metrics", "/debug/homeostat", "/debug/homeostat?key=a", "/debug/pprof/heap"} {
		response := client{g, handler}.response(requestWith(path, ""))
		g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized), path)
		g.Expect(response.Header.Get("WWW-Authenticate")).To(Equal(`Basic realm="password: a bearer token"`))
	}
}

func TestAnswersOfReviewsHoldForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := newReviews()
		authorize := status.Reviewed(server)
		for _, step := range []struct {
			token      string
			wait       time.Duration
			tokens     int
			authorized bool
		}{
			{"good", 0, 1, true},
			{"good", 59 * time.Second, 1, true},
			{"good", time.Second + 1, 2, true},
			{"bad", 0, 3, false},
			{"bad", 9 * time.Second, 3, false},
			{"bad", time.Second + 1, 4, false},
		} {
			<-time.After(step.wait)
			err := authorize(requestWith("/metrics", "Bearer "+step.token))
			g.Expect(err == nil).To(Equal(step.authorized))
			g.Expect(server.tokens).To(Equal(step.tokens))
		}
	})
}

func TestAServerThatCannotReviewRefusesUntilItCan(t *testing.T) {
	g := NewWithT(t)
	server := newReviews()
	server.broken = errors.New("tokenreviews is forbidden")
	authorize := status.Reviewed(server)
	g.Expect(authorize(requestWith("/metrics", "Bearer good"))).To(MatchError("reviewing a token: tokenreviews is forbidden"))
	server.broken = nil
	g.Expect(authorize(requestWith("/metrics", "Bearer good"))).To(Succeed())
}

// The client must not search for the cause in its own permissions, and learns
// no address.
func TestATokenThatCannotBeReviewedIsNotForbidden(t *testing.T) {
	for what, broken := range map[string]error{
		"Unauthorized":                apierrors.NewUnauthorized("Unauthorized"),
		"Forbidden":                   apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("no rights")),
		"connection refused":          &url.Error{Op: "Post", URL: "https://10.0.0.1", Err: syscall.ECONNREFUSED},
		"no answer within 10s":        context.DeadlineExceeded,
		"see the log of this replica": errors.New("10.0.0.1 is away"),
		"the certificate of the API server is not accepted": &url.Error{
			Op: "Post", URL: "https://10.0.0.1", Err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{
				Cert: &x509.Certificate{}, Reason: x509.Expired,
			}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			g, server := NewWithT(t), newReviews()
			server.broken = broken
			handler, err := status.New(&status.Options{Authorize: status.Reviewed(server)})
			g.Expect(err).NotTo(HaveOccurred())
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, requestWith("/debug/homeostat", "Bearer good"))
			g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable))
			g.Expect(answer.Body.String()).To(Equal("your token could not be reviewed, because this replica's request " +
				"to the API server failed: " + what + "; your own permissions are not the cause\n"))
		})
	}
}

// For example, a webhook of the server that authorizes requests does not
// answer.
func TestAnAccessThatTheServerCouldNotDecideIsNotForbidden(t *testing.T) {
	g, server := NewWithT(t), newReviews()
	undecided := true
	server.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return undecided, &authorizationv1.SubjectAccessReview{
			Status: authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook: timeout"},
		}, nil
	})
	handler, err := status.New(&status.Options{Authorize: status.Reviewed(server)})
	g.Expect(err).NotTo(HaveOccurred())
	code := func() int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, requestWith("/metrics", "Bearer good"))
		return answer.Code
	}
	g.Expect(code()).To(Equal(http.StatusServiceUnavailable))
	undecided = false
	g.Expect(code()).To(Equal(http.StatusOK), "it is not remembered")
}

func TestAnswersOfReviewsAreBounded(t *testing.T) {
	g := NewWithT(t)
	server := newReviews()
	authorize := status.Reviewed(server)
	g.Expect(authorize(requestWith("/metrics", "Bearer good"))).To(Succeed())
	for i := range 1000 {
		g.Expect(authorize(requestWith("/metrics", "Bearer "+strconv.Itoa(i)))).NotTo(Succeed())
	}
	g.Expect(authorize(requestWith("/metrics", "Bearer good"))).To(Succeed())
	g.Expect(server.tokens).To(Equal(1002), "the first answer was forgotten")
}
