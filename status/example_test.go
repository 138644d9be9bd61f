package status_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/status"
)

// The program's own checks are shown beside the checks of its controllers.
func ExampleNew() {
	handler, err := status.New(&status.Options{
		Readiness: map[string]func() error{"dns": func() error { return errors.New("the zone is locked") }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/livez", "/readyz"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
		if answer.Code != http.StatusOK {
			fmt.Print(answer.Body.String())
		}
	}
	// Output:
	// /livez 200
	// /readyz 503
	// [-] dns: the zone is locked
	// readyz failed
}

// The page is served to users who may "get" its path in the API server.
func ExampleReviewed() {
	authorize := status.Reviewed(apiServerThatKnows("alice"))
	for _, token := range []string{"alice", "mallory"} {
		r := httptest.NewRequest(http.MethodGet, "/debug/homeostat", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		fmt.Println(token, authorize(r) == nil)
	}
	err := authorize(httptest.NewRequest(http.MethodGet, "/debug/homeostat", nil))
	fmt.Println(errors.Is(err, status.ErrUnauthenticated))
	// Output:
	// alice true
	// mallory false
	// true
}

// apiServerThatKnows returns an API server that reviews tokens. It knows one
// user, whose token is the user's name, and who may read every path.
func apiServerThatKnows(user string) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == user
		review.Status.User.Username = user
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.User == user
		return true, review, nil
	})
	return client
}

// With an empty address, Serve does not listen, so that a flag can switch it
// off.
func ExampleServe() {
	handler, err := status.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	fmt.Println(status.Serve(ctx, "", handler))
	// Output: <nil>
}

// ServeOn serves until its context ends. Give it a context that ends after the
// controllers have drained.
func ExampleServeOn() {
	handler, err := status.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	defer stop()
	ended := make(chan error)
	go func() { ended <- status.ServeOn(ctx, listener, handler) }()
	answer, err := http.Get("http://" + listener.Addr().String() + "/livez")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status, answer.Body.Close())
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK <nil>
	// <nil>
}
