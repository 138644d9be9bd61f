package program

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/status"
)

// Access returns a status.Options.Authorize that lets everyone see the metrics,
// which name no objects, and everything else those whose token the API server
// knows and allows to get the path.
func Access(config *rest.Config) (func(*http.Request) error, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client that reviews access to the page: %w", err)
	}
	reviewed := status.Reviewed(client)
	return func(r *http.Request) error {
		if r.URL.Path == "/metrics" {
			return nil
		}
		return reviewed(r)
	}, nil
}
