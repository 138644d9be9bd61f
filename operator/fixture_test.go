package operator_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// fixture is an API server that has a namespace and grants all permissions
// except those on the refused resource.
type fixture struct {
	*apisim.Server
	refused string
}

func newFixture() *fixture {
	s, err := apisim.New(nil)
	if err == nil {
		err = s.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	}
	if err != nil {
		panic(err)
	}
	return &fixture{Server: s}
}

// config returns the config of a client whose permissions are reviewed, too.
func (s *fixture) config() *rest.Config {
	config := s.Config("labeller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
				return next.RoundTrip(r)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			allowed := s.refused == "" || !strings.Contains(string(body), s.refused)
			return &http.Response{
				StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(fmt.Sprintf(
					`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`, allowed))),
			}, nil
		})
	})
	return config
}

// labelsOf waits until a namespace has labels.
func (s *fixture) labelsOf(ctx context.Context, name string) map[string]string {
	namespaces := kubernetes.NewForConfigOrDie(s.Admin()).CoreV1().Namespaces()
	w, err := namespaces.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		panic(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if namespace, ok := e.Object.(*corev1.Namespace); ok && namespace.Labels["labelled"] != "" {
			return map[string]string{"labelled": namespace.Labels["labelled"]}
		}
	}
	return nil
}

// terminate sends SIGTERM to this process.
func terminate() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(syscall.SIGTERM)
}
