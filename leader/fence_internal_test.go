package leader

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestTargetOfAPath(t *testing.T) {
	for path, want := range map[string]target{
		"/api/v1/namespaces/default/pods/p/exec":            {resource: "pods", subresource: "exec"},
		"/api/v1/namespaces/default/pods":                   {resource: "pods"},
		"/api/v1/namespaces/default":                        {resource: "namespaces"},
		"/api/v1/namespaces/default/finalize":               {resource: "namespaces", subresource: "finalize"},
		"/api/v1/namespaces/default/status":                 {resource: "namespaces", subresource: "status"},
		"/api/v1/nodes/n/proxy/logs":                        {resource: "nodes", subresource: "proxy"},
		"/api/v1/proxy/namespaces/default/services/s/exec":  {verb: "proxy", resource: "services"},
		"/api/v1/watch/namespaces/default/pods/p":           {verb: "watch", resource: "pods"},
		"/apis/apps/v1/namespaces/d/deployments/proxy":      {group: "apps", resource: "deployments"},
		"/apis/apps/v1/namespaces/d/deployments/web/status": {group: "apps", resource: "deployments", subresource: "status"},
		"/apis/apps/v1":        {},
		"/api/v1":              {},
		"/healthz/pods/p/exec": {},
		"/":                    {},
		"":                     {},
	} {
		NewWithT(t).Expect(targetOf(path, "")).To(Equal(want), path)
	}
}

func TestReviewsChangeNothing(t *testing.T) {
	for path, want := range map[string]kind{
		"/apis/authentication.k8s.io/v1/tokenreviews":                          reads,
		"/apis/authentication.k8s.io/v1/selfsubjectreviews":                    reads,
		"/apis/authorization.k8s.io/v1/subjectaccessreviews":                   reads,
		"/apis/authorization.k8s.io/v1/namespaces/d/localsubjectaccessreviews": reads,
		"/apis/shop.example/v1/namespaces/d/reviews":                           writes,
		"/apis/shop.example/v1/namespaces/authorization.k8s.io/tokenreviews":   writes,
		"/apis/authentication.k8s.io/v1/others":                                writes,
		"/api/v1/namespaces/d/serviceaccounts/a/token":                         writes,
		"/api/v1/namespaces/authentication.k8s.io/services/reviews/proxy/x":    streams,
	} {
		NewWithT(t).Expect(kindOf(httptest.NewRequest(http.MethodPost, path, http.NoBody), "")).To(Equal(want), path)
	}
	deletion := httptest.NewRequest(http.MethodDelete, "/apis/authentication.k8s.io/v1/tokenreviews/a", http.NoBody)
	NewWithT(t).Expect(kindOf(deletion, "")).To(Equal(writes))
}
