package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// server answers the requests about a cluster as a test says.
type server struct {
	mu     sync.Mutex // guards answer
	answer func(*http.Request) (status int, body string, err error)
}

func (s *server) answers(f func(*http.Request) (int, string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// RoundTrip answers.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	status, body, err := answer(r)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if strings.HasPrefix(body, "<") {
		header = http.Header{"Content-Type": {"text/html"}, "Retry-After": {"3600"}}
	}
	if status == http.StatusFound {
		header.Set("Location", "/login")
	}
	return &http.Response{StatusCode: status, Header: header, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// What the API server says.
const (
	granted   = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	refused   = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`
	noLogin   = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`
	mayNot    = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	aVersion  = `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`
	loginPage = `<html>Please log in</html>`
	overload  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
)

// redirects to a login page.
func redirects(r *http.Request) (int, string, error) {
	if r.URL.Path == "/login" {
		return http.StatusOK, loginPage, nil
	}
	return http.StatusFound, loginPage, nil
}

// serves has the answers of a server that grants all permissions.
func serves(r *http.Request) (int, string, error) {
	if r.URL.Path == "/version" {
		return http.StatusOK, aVersion, nil
	}
	return http.StatusCreated, granted, nil
}

func says(status int, body string) func(*http.Request) (int, string, error) {
	return func(*http.Request) (int, string, error) { return status, body, nil }
}

func refuses(*http.Request) (int, string, error) { return 0, "", errors.New("connection refused") }

func hangs(r *http.Request) (int, string, error) {
	<-r.Context().Done()
	return 0, "", r.Context().Err()
}

func TestAClusterIsWatchedForAsLongAsTheProgramRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s := &server{}
		c, err := cluster.New(&rest.Config{Host: "https://edge", Transport: s}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		r := &remote{name: "edge", unfenced: c, kinds: c, needs: []permission{{
			ResourceAttributes: authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}, cluster: "edge",
		}}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s.answers(refuses)
		go r.watch(ctx)
		for _, step := range []struct {
			cause, reason string
			answer        func(*http.Request) (int, string, error)
		}{
			{"no answer", "the API server at https://edge does not answer: ", refuses},
			{"no answer", "context deadline exceeded", hangs},
			{"no answer", "is not from the API server", says(http.StatusOK, loginPage)},
			{"no answer", "is not from the API server", redirects},
			{"no answer", "", says(http.StatusForbidden, loginPage)},
			{"no answer", "", says(http.StatusServiceUnavailable, loginPage)},
			{"Unauthorized", "does not know this account", says(http.StatusUnauthorized, noLogin)},
			{"missing permission", "missing permission to list pods", says(http.StatusCreated, refused)},
			{"", "", serves},
			{"no answer", "connection refused", refuses},
			{"", "", says(http.StatusForbidden, mayNot)}, // it is there
			{"Unauthorized", "", says(http.StatusUnauthorized, noLogin)},
			{"no answer", "", says(http.StatusServiceUnavailable, overload)},
			{"no answer", "context deadline exceeded", hangs},
			{"", "", says(http.StatusOK, aVersion)},
			{"no answer", "is not from the API server", says(http.StatusOK, loginPage)},
			{"no answer", "is not from the API server", redirects},
			{"", "", says(http.StatusOK, aVersion)},
			{"no answer", "", says(http.StatusForbidden, loginPage)},
			{"no answer", "", says(http.StatusNotFound, loginPage)},
			{"no answer", "", says(http.StatusServiceUnavailable, loginPage)},
			{"no answer", "is not from the API server", says(http.StatusOK, "{}")},
			{"no answer", "is not from the API server", says(http.StatusOK, noLogin)},
			{"", "", says(http.StatusOK, aVersion)},
		} {
			s.answers(step.answer)
			<-time.After(time.Minute)
			synctest.Wait()
			found := r.problems()
			if step.cause == "" {
				g.Expect(found).To(BeEmpty())
				continue
			}
			g.Expect(found).To(HaveLen(1), step.cause)
			g.Expect(found[0].Check).To(Equal("cluster/edge"))
			g.Expect(found[0].Cause).To(Equal(step.cause))
			g.Expect(found[0].String()).To(ContainSubstring(step.reason))
			g.Expect(found[0].Since).NotTo(BeZero())
		}
	})
}

// A kind that one controller needs is needed, even if all other controllers are
// optional.
func TestOnlyKindsThatNoControllerNeedsAreDispensable(t *testing.T) {
	g := NewWithT(t)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://edge"})
	reader := func(name string, optional bool, triggers ...reconcile.Trigger) *reconcile.Controller {
		c, err := reconcile.New(name, informer.For(client.CoreV1().Pods(""), nil), reconcile.Func[*corev1.Pod](
			func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), &reconcile.Options{Optional: optional, Triggers: triggers})
		g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	secrets := reconcile.Mapped(informer.For(client.CoreV1().Secrets(""), nil),
		func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) { return nil, nil })
	needs, waits := reader("needs", false), reader("waits", true, secrets)
	for _, all := range []readers{{needs, waits}, {waits, needs}} {
		g.Expect(all.dispensable("https://edge")).To(ConsistOf(corev1.Resource("secrets")))
		g.Expect(all.dispensable("https://elsewhere")).To(BeEmpty())
		g.Expect(all.required("https://edge")).To(BeIdenticalTo(needs))
	}
	g.Expect(readers{waits}.dispensable("https://edge")).To(ConsistOf(corev1.Resource("secrets"), corev1.Resource("pods")))
	g.Expect(readers{waits}.required("https://edge")).To(BeNil())
}

// client-go waits for the credential plugin of a kubeconfig beyond every
// deadline.
func TestACheckOfAClusterThatDoesNotReturnIsNamedAndHoldsUpNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		s, release := &server{}, make(chan struct{})
		c, err := cluster.New(&rest.Config{Host: "https://edge", Transport: s}, nil)
		g.Expect(err).NotTo(HaveOccurred())
		r := &remote{name: "edge", unfenced: c, kinds: c, admitted: true}
		asked := 0
		s.answers(func(r *http.Request) (int, string, error) {
			asked++
			<-release
			return serves(r)
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.watch(ctx); close(ended) }()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		g.Expect(r.problems()).To(ConsistOf(And(HaveField("Check", "cluster/edge"), HaveField("Cause", "no answer"),
			HaveField("Reason", ContainSubstring("perhaps the credential plugin of the kubeconfig does not return")))))
		g.Expect(asked).To(Equal(1), "one check at a time")
		stop()
		synctest.Wait()
		g.Expect(ended).To(BeClosed())
		close(release)

		ctx, stop = context.WithCancel(t.Context())
		go r.watch(ctx)
		<-time.After(time.Minute)
		synctest.Wait()
		g.Expect(r.problems()).To(BeEmpty(), "it heals by itself")
		stop()
		synctest.Wait()
	})
}
